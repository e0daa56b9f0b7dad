//! One capture, from the first packet to the last.

use std::{
    io,
    ops::ControlFlow,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use usher_client::wall_clock;
use usher_core::node::packet::{Interface, Packet};
use usher_sys::net::packet::{Error, Statistics, Tap, WakeReason};

use super::{
    bound::{Bounds, Ended},
    file::File,
    lines::Lines,
};

/// Time for packets that the kernel has counted and not yet delivered.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Interfaces with a known name; further ones are printed by number.
const MAX_INTERFACES: usize = 256;

#[derive(Debug)]
pub(super) enum Sink {
    Lines(Lines),
    File(File),
}

#[derive(Debug)]
pub(super) struct Summary {
    pub(super) ended: Ended,
    pub(super) captured: u64,
    /// Size of the file; None without a file.
    pub(super) bytes: Option<u64>,
    /// None if the kernel does not report it.
    pub(super) counted: Option<Statistics>,
    pub(super) took: Duration,
}

#[derive(Debug)]
pub(super) struct Session {
    tap: Tap,
    recording: Recording,
}

/// The state of a session without the packet socket.
#[derive(Debug)]
struct Recording {
    sink: Sink,
    bounds: Bounds,
    interfaces: Vec<Interface>,
    captured: u64,
    ended: Option<Ended>,
}

impl Session {
    pub(super) fn new(tap: Tap, sink: Sink, bounds: Bounds, interfaces: Vec<Interface>) -> Self {
        let recording = Recording {
            sink,
            bounds,
            interfaces,
            captured: 0,
            ended: None,
        };
        Self { tap, recording }
    }

    /// Captures until a limit is reached, the output fails, or `stop` becomes readable.
    pub(super) fn run(mut self, stop: &OwnedFd) -> Summary {
        let (began, start_ns) = (Instant::now(), now_ns());
        let ended = self.capture(stop, began);
        let counted = self.finish(&ended);
        let bytes = match (&mut self.recording.sink, &ended) {
            (Sink::Lines(_), _) => None,
            (Sink::File(file), Ended::ReaderClosed | Ended::Unwritable(_)) => Some(file.written()),
            (Sink::File(file), _) => {
                let times = (start_ns, now_ns());
                // The packets can be read without the statistics.
                drop(file.end(times, counted.as_ref()));
                Some(file.written())
            }
        };
        Summary {
            ended,
            captured: self.recording.captured,
            bytes,
            counted,
            took: began.elapsed(),
        }
    }

    fn capture(&mut self, stop: &OwnedFd, began: Instant) -> Ended {
        if let Err(error) = self.recording.begin() {
            return failed(error);
        }
        let mut has_more = false;
        loop {
            let left = self
                .recording
                .bounds
                .duration
                .saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ended::Duration;
            }
            // Check for a stop between two reads, even under load.
            let limit = if has_more { Duration::ZERO } else { left };
            match self.tap.wait(stop.as_fd(), self.recording.pipe(), limit) {
                Ok(WakeReason::Packets) => {}
                Ok(WakeReason::Stopped) => return Ended::Signal,
                Ok(WakeReason::ReaderClosed) => return Ended::ReaderClosed,
                Err(error) => return Ended::Broken(error),
            }
            has_more = match self.read() {
                Ok(has_more) => has_more,
                Err(ended) => return ended,
            };
        }
    }

    /// Reads one block of the ring, and returns whether there may be another.
    fn read(&mut self) -> Result<bool, Ended> {
        let Self { tap, recording, .. } = self;
        let mut unknown = None;
        let has_more = tap.read(|packet| recording.take(&packet, &mut unknown));
        if let Some(ended) = recording.ended.take() {
            // Write the packets that were received before the end.
            recording.flush().map_err(failed)?;
            return Err(ended);
        }
        recording.flush().map_err(failed)?;
        // The interface was created later. Its earlier packets have its number instead of its name.
        let unknown = unknown.filter(|_| recording.interfaces.len() < MAX_INTERFACES);
        let named = unknown.and_then(|(index, hardware)| {
            let name = tap.name(index)?;
            Some(Interface {
                index,
                name,
                hardware,
            })
        });
        recording.interfaces.extend(named);
        Ok(has_more)
    }

    /// Stops the kernel from counting, and reads its counters and the remaining packets.
    fn finish(&mut self, ended: &Ended) -> Option<Statistics> {
        let closed = self.tap.close();
        let counted = closed.and_then(|()| self.tap.statistics());
        let Ok(counted) = counted else { return None };
        let (never_readable, _open) = io::pipe().ok()?;
        let end = Instant::now() + DRAIN_TIMEOUT;
        while ended.wants_the_rest() && self.recording.captured < counted.accepted - counted.dropped
        {
            let left = end.saturating_duration_since(Instant::now());
            let waited: Result<WakeReason, Error> =
                self.tap
                    .wait(never_readable.as_fd(), self.recording.pipe(), left);
            let is_over = left.is_zero() || !matches!(waited, Ok(WakeReason::Packets));
            if is_over || self.read().is_err() {
                break;
            }
        }
        Some(counted)
    }
}

impl Recording {
    fn begin(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Lines(_) => Ok(()),
            Sink::File(file) => file.begin(&self.interfaces),
        }
    }

    fn take(&mut self, packet: &Packet<'_>, unknown: &mut Option<(u32, u16)>) -> ControlFlow<()> {
        let interface = self
            .interfaces
            .iter()
            .find(|one| one.index == packet.interface);
        if interface.is_none() {
            *unknown = Some((packet.interface, packet.hardware));
        }
        let has_room = match &mut self.sink {
            Sink::Lines(lines) => lines.put(packet, interface),
            Sink::File(file) => file.put(packet, interface, self.bounds.size),
        };
        if !has_room {
            self.ended = Some(Ended::Size);
            return ControlFlow::Break(());
        }
        self.captured += 1;
        if self
            .bounds
            .count
            .is_some_and(|count| self.captured >= count)
        {
            self.ended = Some(Ended::Count);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Lines(lines) => lines.flush(),
            Sink::File(file) => file.flush(),
        }
    }

    fn pipe(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        match &self.sink {
            Sink::Lines(lines) => Some(lines.reader()),
            Sink::File(file) => file.reader(),
        }
    }
}

fn now_ns() -> u64 {
    wall_clock::since_epoch().as_nanos() as u64
}

fn failed(error: io::Error) -> Ended {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ended::ReaderClosed,
        _ => Ended::Unwritable(error),
    }
}
