//! Packets that wait in a queue
//! ([nfnetlink_queue](https://github.com/torvalds/linux/blob/v6.18/net/netfilter/nfnetlink_queue.c)):
//! DNS queries, since a UDP packet that is dropped is an `EPERM` for the app.
//!
//! The kernel keeps them; nothing is read here but the verdict on the binding.
//! It tells of each on the socket all the same, and drops a packet that it finds
//! no room to tell of, so there is room for all. When the [`Queue`] is dropped
//! the packets in it are dropped too; a rule with `bypass` lets later ones pass.
//!
//! Needs `CAP_NET_ADMIN` in the user namespace that owns the network
//! namespace.

use std::io;

use crate::net::{
    netlink::{
        Protocol, Socket, attribute,
        configure::{Refused, configure, message},
        message,
    },
    netns::{self, Netns},
};

/// The queue that usher's rules send to.
pub const QUEUE: u16 = 9643;

/// How many packets wait at most; what comes after is dropped.
pub const MOST_PACKETS: u32 = 1024;

/// Room for the kernel's tales of them, which it takes twice: some 800 bytes for
/// each.
const ROOM: usize = 1024 * 1024;

const SUBSYSTEM: u8 = 3;
const CONFIGURE: u8 = 2;
const VERDICTS: u8 = 3;

// Attributes of a configuration.
const COMMAND: u16 = 1;
const COMMAND_BIND: u8 = 1;
const PARAMETERS: u16 = 2;
const COPY_META: u8 = 1;
const MOST: u16 = 3;

// Of a verdict.
const VERDICT: u16 = 2;
const ACCEPT: u32 = 1;
/// Later than the id of every packet, as the kernel compares them.
const ALL: u32 = 0x7fff_ffff;

/// No packet can wait, or they cannot be let go.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No netlink socket in the namespace.
    #[error("opening a socket for a queue of packets")]
    Open(#[from] netns::Error),
    /// There is no room for what the kernel tells.
    #[error("preparing the socket of queue {queue}")]
    Prepare {
        /// The queue.
        queue: u16,
        /// Why.
        source: io::Error,
    },
    /// The queue could not be bound.
    #[error("binding queue {queue}")]
    Bind {
        /// The queue.
        queue: u16,
        /// Why.
        source: Refused,
    },
    /// The verdict could not be sent.
    #[error("letting the packets of queue {queue} go")]
    Accept {
        /// The queue.
        queue: u16,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// A word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Prepare { .. } => "prepare",
            Self::Bind { .. } => "bind",
            Self::Accept { .. } => "accept",
        }
    }
}

/// A queue in one network namespace.
#[derive(Debug)]
pub struct Queue {
    queue: u16,
    socket: Socket,
}

impl Queue {
    /// Makes the queue. Before it is there, a rule with `bypass` lets all
    /// packets pass.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::Prepare`] or [`Error::Bind`].
    pub fn bind(netns: &Netns, queue: u16) -> Result<Self, Error> {
        let socket = netns.netlink(Protocol::Netfilter)?;
        socket
            .make_room(ROOM)
            .map_err(|source| Error::Prepare { queue, source })?;
        let request = message(SUBSYSTEM, CONFIGURE, queue, message::ACK, |body| {
            attribute::put(body, COMMAND, &[COMMAND_BIND, 0, 0, 0]);
            attribute::put(body, PARAMETERS, &[0, 0, 0, 0, COPY_META]);
            attribute::put_u32(body, MOST, MOST_PACKETS);
        });
        configure(&socket, &request).map_err(|source| Error::Bind { queue, source })?;
        Ok(Self { queue, socket })
    }

    /// Lets all packets go that wait now, in the order in which they came. Can be
    /// said again, for those that came meanwhile.
    ///
    /// # Errors
    /// [`Error::Accept`].
    pub fn accept_all(&self) -> Result<(), Error> {
        // Without an acknowledgement: it would stand behind the tales of all
        // packets, and find no room where they fill it. An empty queue is
        // refused, and nobody reads that.
        let request = message(SUBSYSTEM, VERDICTS, self.queue, 0, |body| {
            let mut verdict = [0; 8];
            verdict[..4].copy_from_slice(&ACCEPT.to_be_bytes());
            verdict[4..].copy_from_slice(&ALL.to_be_bytes());
            attribute::put(body, VERDICT, &verdict);
        });
        self.socket.send(&request).map_err(|source| Error::Accept {
            queue: self.queue,
            source,
        })
    }
}
