//! Packets that wait in a queue
//! ([nfnetlink_queue](https://github.com/torvalds/linux/blob/v6.18/net/netfilter/nfnetlink_queue.c)):
//! It holds DNS queries, because the sender of a dropped UDP packet would get `EPERM`.
//!
//! The packets stay in the kernel, and only the verdict on the binding is read here. The kernel still notifies the
//! socket of each packet, and drops a packet whose notification does not fit in the receive buffer, so the buffer has
//! room for all. Dropping the [`Queue`] drops its packets; a rule with `bypass` passes later ones.
//!
//! A released packet passes the chain that queued it again (`NF_REPEAT`), so a packet to a port that is still held is
//! queued again.
//!
//! The crate nfq 0.2.5 is not used, because it opens its socket in the caller's network namespace and sends one verdict
//! for each packet.
//!
//! Needs `CAP_NET_ADMIN` in the user namespace that owns the network namespace.

use std::io;

use crate::net::{
    netlink::{
        Protocol, Socket, attribute,
        configure::{Rejected, configure, message},
        message,
    },
    netns::{self, Netns},
};

pub use usher_core::hold::ruleset::GROUP as QUEUE;

/// Maximum number of queued packets; later ones are dropped.
pub const MOST_PACKETS: u32 = 1024;

/// Receive buffer for the kernel's notifications (about 800 B each, accounted twice).
const ROOM: usize = 1024 * 1024;
/// Longer than a notification, which has no payload.
const NOTIFICATION: usize = 4096;

const SUBSYSTEM: u8 = 3;
const CONFIGURE: u8 = 2;
const VERDICTS: u8 = 3;

// Attributes of a configuration.
const COMMAND: u16 = 1;
const COMMAND_BIND: u8 = 1;
const PARAMETERS: u16 = 2;
const COPY_META: u8 = 1;
const MOST: u16 = 3;

// Attributes of a verdict.
const VERDICT: u16 = 2;
/// `NF_REPEAT`. `NF_ACCEPT` would skip the rules, and pass packets to ports that are still held.
const REPEAT: u32 = 4;
/// An id that the kernel's comparison sorts after every packet's id.
const ALL: u32 = 0x7fff_ffff;

/// Packets cannot be queued or released.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("opening a socket for a queue of packets")]
    Open(#[from] netns::Error),
    #[error("preparing the socket of queue {queue}")]
    Prepare { queue: u16, source: io::Error },
    #[error("binding queue {queue}")]
    Bind { queue: u16, source: Rejected },
    #[error("releasing the packets of queue {queue}")]
    Repeat { queue: u16, source: io::Error },
}

/// A queue in one network namespace.
#[derive(Debug)]
pub struct Queue {
    queue: u16,
    socket: Socket,
}

impl Queue {
    /// Creates the queue. Until then a rule with `bypass` passes all packets.
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

    /// Passes all queued packets through the rules again, in the order of their arrival. Those that the rules queue
    /// again keep that order, and wait until the next call.
    pub fn repeat_all(&self) -> Result<(), Error> {
        self.discard_notifications();
        // This does not loop: the kernel empties the queue before it passes the first packet through the rules
        // (`nfqnl_recv_verdict_batch`).
        //
        // Requests no acknowledgement, because it would follow the notifications of all packets, and be lost if they
        // fill the buffer. The kernel rejects a verdict on an empty queue; the next call discards that error.
        let request = message(SUBSYSTEM, VERDICTS, self.queue, 0, |body| {
            let mut verdict = [0; 8];
            verdict[..4].copy_from_slice(&REPEAT.to_be_bytes());
            verdict[4..].copy_from_slice(&ALL.to_be_bytes());
            attribute::put(body, VERDICT, &verdict);
        });
        self.socket.send(&request).map_err(|source| Error::Repeat {
            queue: self.queue,
            source,
        })
    }

    /// Makes room for the notifications of packets that are queued again.
    fn discard_notifications(&self) {
        let mut buffer = [0; NOTIFICATION];
        // Ends: the kernel sends none while the queue is full.
        while let Ok(Some(_)) = self.socket.receive(&mut buffer) {}
    }
}
