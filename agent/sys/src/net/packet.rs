//! Copies of the packets of a network namespace
//! ([packet(7)](https://man7.org/linux/man-pages/man7/packet.7.html)).
//!
//! A [`Tap`] is one socket for all interfaces of the namespace. The kernel runs the filter before it copies, writes what is wanted
//! into a ring that it shares with this process (`TPACKET_V3`, Linux 3.2;
//! [packet_mmap](https://www.kernel.org/doc/html/v6.12/networking/packet_mmap.html)), and counts what finds no room there: there is
//! no system call for each packet, memory is the ring's, and nothing is lost that is not told. The filter is there before the first packet
//! is. A ring and not recvmmsg(2), whose queue is bounded by what the kernel thinks that packets weigh: some thousands of
//! small ones, which a burst on loopback fills in a millisecond.
//!
//! Needs `CAP_NET_RAW` in the user namespace that owns the network namespace, and what [`crate::net::netns`] needs.

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

/// The most that a packet can have in the ring, and what is asked of it where nobody asks for less.
pub const LONGEST: u32 = ring::LONGEST;

/// The smallest ring; sizes are multiples of it.
pub const SMALLEST_ROOM: usize = ring::BLOCK;

/// What the capabilities are for, in the order in which they are needed.
const NEEDED: [(Capability, &str); 3] = [
    (Capability::CAP_SYS_PTRACE, "CAP_SYS_PTRACE"),
    (Capability::CAP_SYS_ADMIN, "CAP_SYS_ADMIN"),
    (Capability::CAP_NET_RAW, "CAP_NET_RAW"),
];

/// The capabilities that are needed and that this thread does not have.
pub fn missing_capabilities() -> Vec<&'static str> {
    let is_missing =
        |capability| !caps::has_cap(None, CapSet::Effective, capability).unwrap_or(true);
    let missing = NEEDED
        .into_iter()
        .filter(|(capability, _)| is_missing(*capability));
    missing.map(|(_, name)| name).collect()
}

/// Packets cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no socket.
    #[error("opening a socket for copies of packets")]
    Open(#[from] netns::Error),
    /// The interfaces could not be listed.
    #[error("listing the interfaces to capture")]
    Interfaces(#[source] link::Error),
    /// The kernel refused a setting.
    #[error("capture: setting {what}")]
    Set {
        /// What was to be set.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The ring could not be mapped.
    #[error("mapping a ring of {room} bytes for packets")]
    Map {
        /// Its size.
        room: usize,
        /// Why.
        source: io::Error,
    },
    /// The socket could not be bound.
    #[error("binding a socket to all interfaces")]
    Bind(#[source] io::Error),
    /// The kernel would not say what it dropped.
    #[error("reading the statistics of a capture")]
    Statistics(#[source] io::Error),
    /// Waiting failed.
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
    /// A word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Interfaces(_) => "interfaces",
            Self::Set { .. } => "set",
            Self::Map { .. } => "map",
            Self::Bind(_) => "bind",
            Self::Statistics(_) => "statistics",
            Self::Wait(_) => "wait",
        }
    }

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

/// What the kernel counted since the tap was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Packets that the filter accepted.
    pub accepted: u64,
    /// Those of them that found no room.
    pub dropped: u64,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woke {
    /// Packets, or time.
    Read,
    /// The first of the others: somebody wants an end.
    Told,
    /// Nobody reads what is written to the second of the others.
    Unread,
}

/// Copies of the packets of one network namespace.
#[derive(Debug)]
pub struct Tap {
    // Unmapped before the socket is closed.
    ring: Ring,
    socket: OwnedFd,
    links: Links,
    statistics: Statistics,
}

impl Tap {
    /// Starts to copy what `program` accepts. `room` is the size of the ring.
    ///
    /// # Errors
    /// All but [`Error::Statistics`] and [`Error::Wait`].
    pub fn open(netns: &Netns, program: &[Instruction], room: usize) -> Result<Self, Error> {
        let socket = netns.packet_socket()?;
        option::attach(&socket, program)?;
        let ring = Ring::map(&socket, room)?;
        // From here on packets come.
        option::bind(&socket).map_err(Error::Bind)?;
        Ok(Self {
            ring,
            socket,
            links: Links::open(netns)?,
            statistics: Statistics::default(),
        })
    }

    /// The interfaces that the namespace has now.
    ///
    /// # Errors
    /// [`Error::Open`] and [`Error::Interfaces`].
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

    /// The name of an interface that appeared later; None when it no longer exists.
    pub fn name(&self, index: u32) -> Option<String> {
        let interfaces = self.links.interfaces().ok()?;
        interfaces
            .into_iter()
            .find(|interface| interface.index == index)
            .map(|interface| interface.name)
    }

    /// Gives `take` the packets of the next full part of the ring, until it wants no more; false when there is none.
    pub fn read(&mut self, take: impl FnMut(Packet<'_>) -> ControlFlow<()>) -> bool {
        self.ring.read(take)
    }

    /// Accepts nothing any more; what was copied can still be read.
    ///
    /// # Errors
    /// [`Error::Set`].
    pub fn close(&mut self) -> Result<(), Error> {
        option::attach(&self.socket, &[Instruction::REFUSE])
    }

    /// What the kernel has counted.
    ///
    /// # Errors
    /// [`Error::Statistics`].
    pub fn statistics(&mut self) -> Result<Statistics, Error> {
        // The kernel begins anew with each answer.
        let (accepted, dropped) = option::statistics(&self.socket).map_err(Error::Statistics)?;
        self.statistics.accepted += u64::from(accepted);
        self.statistics.dropped += u64::from(dropped);
        Ok(self.statistics)
    }

    /// Waits for packets, but no longer than `limit`; for `told` to become readable; and for the reader behind `written`, a
    /// pipe, to go away.
    ///
    /// # Errors
    /// [`Error::Wait`].
    pub fn wait(
        &self,
        told: BorrowedFd<'_>,
        written: Option<BorrowedFd<'_>>,
        limit: Duration,
    ) -> Result<Woke, Error> {
        let mut fds = vec![
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(told, PollFlags::POLLIN),
        ];
        // Nothing is asked for: an error is told unasked.
        fds.extend(written.map(|fd| PollFd::new(fd, PollFlags::empty())));
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, limit) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Error::Wait(errno.into())),
        }
        let is_up = |at: usize| fds.get(at).and_then(PollFd::any).unwrap_or(false);
        Ok(match (is_up(1), is_up(2)) {
            (true, _) => Woke::Told,
            (false, true) => Woke::Unread,
            (false, false) => Woke::Read,
        })
    }
}
