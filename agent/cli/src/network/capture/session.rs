//! One capture, from the first packet to the last.

use std::{
    io,
    ops::ControlFlow,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use usher_core::node::packet::{Interface, Packet};
use usher_sys::net::packet::{Error, Statistics, Tap, WakeReason};

use super::{
    bound::{Bounds, Ended},
    file::File,
    lines::Lines,
};

/// How long packets that the kernel has counted may be on their way.
const LAST: Duration = Duration::from_secs(1);
/// Names of interfaces that are remembered: who makes more in a minute gets numbers.
const MOST_INTERFACES: usize = 256;

/// Where packets go.
#[derive(Debug)]
pub(super) enum Sink {
    Lines(Lines),
    File(File),
}

/// What came of a capture.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) ended: Ended,
    pub(super) captured: u64,
    /// What is in the file; none where there is no file.
    pub(super) bytes: Option<u64>,
    /// None where the kernel would not say.
    pub(super) counted: Option<Statistics>,
    pub(super) took: Duration,
}

/// A capture.
#[derive(Debug)]
pub(super) struct Session {
    tap: Tap,
    takes: Takes,
    now_ns: fn() -> u64,
}

/// All of it but the kernel's side.
#[derive(Debug)]
struct Takes {
    sink: Sink,
    bounds: Bounds,
    interfaces: Vec<Interface>,
    captured: u64,
    ended: Option<Ended>,
}

impl Session {
    pub(super) fn new(
        tap: Tap,
        sink: Sink,
        bounds: Bounds,
        interfaces: Vec<Interface>,
        now_ns: fn() -> u64,
    ) -> Self {
        let takes = Takes {
            sink,
            bounds,
            interfaces,
            captured: 0,
            ended: None,
        };
        Self { tap, takes, now_ns }
    }

    /// Captures until there is a reason to end: `told` is one when it becomes readable.
    pub(super) fn run(mut self, told: &OwnedFd) -> Summary {
        let (began, start_ns) = (Instant::now(), (self.now_ns)());
        let ended = self.capture(told, began);
        let counted = self.finish(&ended);
        let bytes = match (&mut self.takes.sink, &ended) {
            (Sink::Lines(_), _) => None,
            (Sink::File(file), Ended::Unread | Ended::Unwritable(_)) => Some(file.written()),
            (Sink::File(file), _) => {
                let times = (start_ns, (self.now_ns)());
                // What was written until here can be read without it.
                drop(file.end(times, counted.as_ref()));
                Some(file.written())
            }
        };
        Summary {
            ended,
            captured: self.takes.captured,
            bytes,
            counted,
            took: began.elapsed(),
        }
    }

    fn capture(&mut self, told: &OwnedFd, began: Instant) -> Ended {
        if let Err(error) = self.takes.begin() {
            return failed(error);
        }
        let mut has_more = false;
        loop {
            let left = self.takes.bounds.duration.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ended::Duration;
            }
            // A look in between, however much there is to read.
            let limit = if has_more { Duration::ZERO } else { left };
            match self.tap.wait(told.as_fd(), self.takes.pipe(), limit) {
                Ok(WakeReason::Packets) => {}
                Ok(WakeReason::Stopped) => return Ended::Told,
                Ok(WakeReason::ReaderClosed) => return Ended::Unread,
                Err(error) => return Ended::Broken(error),
            }
            has_more = match self.read() {
                Ok(has_more) => has_more,
                Err(ended) => return ended,
            };
        }
    }

    /// Reads one part of the ring; whether there may be another.
    fn read(&mut self) -> Result<bool, Ended> {
        let Self { tap, takes, .. } = self;
        let mut unknown = None;
        let has_more = tap.read(|packet| takes.take(&packet, &mut unknown));
        if let Some(ended) = takes.ended.take() {
            // What came before that is still to be written.
            takes.flush().map_err(failed)?;
            return Err(ended);
        }
        takes.flush().map_err(failed)?;
        // The name of one that came later; its packets until here have its number.
        let unknown = unknown.filter(|_| takes.interfaces.len() < MOST_INTERFACES);
        let named = unknown.and_then(|(index, hardware)| {
            let name = tap.name(index)?;
            Some(Interface {
                index,
                name,
                hardware,
            })
        });
        takes.interfaces.extend(named);
        Ok(has_more)
    }

    /// Has the kernel count no more, and reads what it has counted.
    fn finish(&mut self, ended: &Ended) -> Option<Statistics> {
        let closed = self.tap.close();
        let counted = closed.and_then(|()| self.tap.statistics());
        let Ok(counted) = counted else { return None };
        let (nobody, _open) = io::pipe().ok()?;
        let end = Instant::now() + LAST;
        while ended.wants_the_rest() && self.takes.captured < counted.accepted - counted.dropped {
            let left = end.saturating_duration_since(Instant::now());
            let waited: Result<WakeReason, Error> =
                self.tap.wait(nobody.as_fd(), self.takes.pipe(), left);
            let is_over = left.is_zero() || !matches!(waited, Ok(WakeReason::Packets));
            if is_over || self.read().is_err() {
                break;
            }
        }
        Some(counted)
    }
}

impl Takes {
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

fn failed(error: io::Error) -> Ended {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ended::Unread,
        _ => Ended::Unwritable(error),
    }
}
