//! Prints packets as lines.

use std::{
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd},
};

use usher_core::node::packet::{Interface, Packet};
use usher_inspect::{capture::line::Summary, text::printable::clean};

use super::owner::Owners;

const NANOSECONDS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Lines {
    out: io::Stdout,
    buffer: String,
    owners: Owners,
}

impl Lines {
    pub(super) fn new(owners: Owners) -> Self {
        Self {
            out: io::stdout(),
            buffer: String::new(),
            owners,
        }
    }

    /// Unlike a file, lines have no size limit.
    pub(super) fn put(&mut self, packet: &Packet<'_>, interface: Option<&Interface>) -> bool {
        let name = match interface {
            Some(interface) => clean(&interface.name).into_owned(),
            None => format!("interface{}", packet.interface),
        };
        let (time, summary) = (time(packet.at_ns), Summary::of(packet));
        self.buffer.push_str(&format!("{time} {name:<8} {summary}"));
        if let Some(comment) = self.owners.comment(packet) {
            self.buffer.push_str(&format!("  ({})", clean(&comment)));
        }
        self.buffer.push('\n');
        true
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut out = self.out.lock();
        out.write_all(self.buffer.as_bytes())?;
        self.buffer.clear();
        out.flush()
    }

    pub(super) fn reader(&self) -> BorrowedFd<'_> {
        self.out.as_fd()
    }
}

/// The time of day, UTC.
fn time(at_ns: u64) -> String {
    let (seconds, microseconds) = (at_ns / NANOSECONDS, at_ns % NANOSECONDS / 1000);
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!(
        "{hours:02}:{minutes:02}:{:02}.{microseconds:06}",
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn times() {
        assert_eq!(super::time(1_800_000_123_000_004_999), "08:02:03.000004");
        assert_eq!(super::time(u64::MAX).len(), 15);
    }
}
