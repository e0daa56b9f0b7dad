//! Copies of the packets of a network namespace ([packet(7)](https://man7.org/linux/man-pages/man7/packet.7.html)).
//!
//! A [`Tap`] is one socket for all interfaces of the namespace. The kernel runs the filter before it copies. It writes
//! accepted packets into a ring that it shares with this process (`TPACKET_V3`, Linux 3.2;
//! [packet_mmap](https://www.kernel.org/doc/html/v6.12/networking/packet_mmap.html)), and counts packets that do not
//! fit. So a packet costs no system call, the memory is bounded, and losses are reported. The filter is attached before
//! the first copy. recvmmsg(2) is not used, because the kernel bounds its queue by the accounted size of packets: on
//! loopback, some thousands of small packets fill it in a millisecond.
//!
//! Needs `CAP_NET_RAW` in the user namespace that owns the network namespace, and the capabilities of
//! [`crate::net::netns`].

mod block;
mod option;
mod ring;

use std::{
    io,
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use caps::{CapSet, Capability};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use usher_core::node::packet::{Instruction, Interface, Packet};

pub use self::block::packets;
use self::ring::Ring;
use crate::net::{
    link::{self, Links},
    netns::{self, Netns},
};

/// Most bytes of a packet in the ring, and the default.
pub const LONGEST: u32 = ring::LONGEST;

/// The smallest ring. The size of a ring is a multiple of it.
pub const SMALLEST_ROOM: usize = ring::BLOCK;

/// The required capabilities, in the order of their use.
const NEEDED: [Capability; 3] = [
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_NET_RAW,
];

/// The required capabilities that this thread lacks.
pub fn missing_capabilities() -> Vec<String> {
    NEEDED
        .into_iter()
        .filter(|capability| !caps::has_cap(None, CapSet::Effective, *capability).unwrap_or(true))
        .map(|capability| capability.to_string())
        .collect()
}

/// Packets cannot be captured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("opening a socket for copies of packets")]
    Open(#[from] netns::Error),
    #[error("listing the interfaces to capture")]
    Interfaces(#[source] link::Error),
    /// The kernel refused a setting.
    #[error("capture: setting {what}")]
    Set {
        what: &'static str,
        source: io::Error,
    },
    #[error("mapping a ring of {room} bytes for packets")]
    Map { room: usize, source: io::Error },
    #[error("binding a socket to all interfaces")]
    Bind(#[source] io::Error),
    #[error("reading the statistics of a capture")]
    Statistics(#[source] io::Error),
    #[error("waiting for packets")]
    Wait(#[source] io::Error),
}

impl From<link::Error> for Error {
    fn from(error: link::Error) -> Self {
        match error {
            link::Error::Open(source) => Self::Open(source),
            error @ link::Error::Dump { .. } => Self::Interfaces(error),
        }
    }
}

impl Error {
    /// Whether a capability is missing.
    pub fn is_refusal(&self) -> bool {
        let source = match self {
            Self::Open(
                netns::Error::Enter { source, .. } | netns::Error::Socket { source, .. },
            )
            | Self::Open(netns::Error::Open { source, .. })
            | Self::Set { source, .. }
            | Self::Map { source, .. }
            | Self::Bind(source)
            | Self::Statistics(source)
            | Self::Wait(source) => source,
            Self::Open(_) | Self::Interfaces(_) => return false,
        };
        source.kind() == io::ErrorKind::PermissionDenied
    }
}

/// The kernel's counters since the start of the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Packets that the filter accepted.
    pub accepted: u64,
    /// Accepted packets that did not fit the ring.
    pub dropped: u64,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// Packets arrived, or the time limit has passed.
    Packets,
    /// The stop descriptor is readable.
    Stopped,
    /// The reader of the output has closed the pipe.
    ReaderClosed,
}

/// Copies of the packets of one network namespace.
#[derive(Debug)]
pub struct Tap {
    // Dropped before the socket, so that the memory is unmapped before the socket is closed.
    ring: Ring,
    socket: OwnedFd,
    links: Links,
    statistics: Statistics,
}

impl Tap {
    /// Starts to copy packets that `program` accepts. `room` is the size of the ring.
    ///
    /// # Errors
    /// All variants except [`Error::Statistics`] and [`Error::Wait`].
    pub fn open(netns: &Netns, program: &[Instruction], room: usize) -> Result<Self, Error> {
        let socket = netns.packet_socket()?;
        option::attach(&socket, program)?;
        let ring = Ring::map(&socket, room)?;
        // The kernel copies packets from here on.
        option::bind(&socket).map_err(Error::Bind)?;
        Ok(Self {
            ring,
            socket,
            links: Links::open(netns)?,
            statistics: Statistics::default(),
        })
    }

    /// The interfaces that the namespace has now.
    pub fn interfaces(netns: &Netns) -> Result<Vec<Interface>, Error> {
        let interfaces = Links::open(netns)?.interfaces()?;
        Ok(interfaces
            .into_iter()
            .map(|interface| Interface {
                index: interface.index,
                name: interface.name,
                hardware: interface.hardware,
            })
            .collect())
    }

    /// The name of an interface that appeared later; None if it no longer exists.
    pub fn name(&self, index: u32) -> Option<String> {
        let interfaces = self.links.interfaces().ok()?;
        interfaces
            .into_iter()
            .find(|interface| interface.index == index)
            .map(|interface| interface.name)
    }

    /// Passes the packets of the next full block to `take`, until it breaks; false if no block is full.
    pub fn read(&mut self, take: impl FnMut(Packet<'_>) -> ControlFlow<()>) -> bool {
        self.ring.read(take)
    }

    /// Stops copying. Packets in the ring can still be read.
    pub fn close(&mut self) -> Result<(), Error> {
        option::attach(&self.socket, &[Instruction::REFUSE])
    }

    pub fn statistics(&mut self) -> Result<Statistics, Error> {
        // The kernel resets its counters with each reply.
        let (accepted, dropped) = option::statistics(&self.socket).map_err(Error::Statistics)?;
        self.statistics.accepted += u64::from(accepted);
        self.statistics.dropped += u64::from(dropped);
        Ok(self.statistics)
    }

    /// Waits at most `limit` for packets, for `stop` to become readable, and for the reader of the pipe `written` to
    /// close it.
    pub fn wait(
        &self,
        stop: BorrowedFd<'_>,
        written: Option<BorrowedFd<'_>>,
        limit: Duration,
    ) -> Result<WakeReason, Error> {
        let mut fds = vec![
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(stop, PollFlags::POLLIN),
        ];
        // Requests no events, because the kernel reports errors anyway.
        fds.extend(written.map(|fd| PollFd::new(fd, PollFlags::empty())));
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, limit) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Error::Wait(errno.into())),
        }
        let is_up = |at: usize| fds.get(at).and_then(PollFd::any).unwrap_or(false);
        Ok(match (is_up(1), is_up(2)) {
            (true, _) => WakeReason::Stopped,
            (false, true) => WakeReason::ReaderClosed,
            (false, false) => WakeReason::Packets,
        })
    }
}
