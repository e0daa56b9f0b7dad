//! Packets that a rule copies with `log group`
//! ([nfnetlink_log](https://github.com/torvalds/linux/blob/v6.18/net/netfilter/nfnetlink_log.c)).
//!
//! A group has one reader in each network namespace, from [`Log::bind`] until the [`Log`] is dropped. The kernel drops
//! copies that do not fit in the receive buffer, which holds about 2,500. A lost copy is not an error: its connection
//! continues at the next retransmission.
//!
//! The messages are decoded here without a copy of each payload, which netlink-packet-netfilter 0.4.0 would make.
//!
//! Needs `CAP_NET_ADMIN` in the user namespace that owns the network namespace.

use std::{io, str};

use nix::errno::Errno;
use tokio::io::unix::AsyncFd;

use crate::{
    net::{
        netlink::{
            Protocol, Socket,
            attribute::{self, attributes},
            configure::{Rejected, configure, message},
            message::{self, messages},
        },
        netns::{self, Netns},
    },
    pods::readiness,
};

pub use usher_core::hold::ruleset::GROUP;

const SUBSYSTEM: u8 = 4;
const PACKET: u8 = 0;
const CONFIGURE: u8 = 1;

// Attributes of a configuration.
const COMMAND: u16 = 1;
const COMMAND_BIND: u8 = 1;
const MODE: u16 = 2;
const MODE_PACKET: u8 = 2;
const THRESHOLD: u16 = 5;

// Attributes of a packet.
const HEADER: u16 = 1;
const PAYLOAD: u16 = 9;
const PREFIX: u16 = 10;

/// Length of `struct nfgenmsg`, which precedes the attributes.
const FAMILY: usize = 4;

/// Length of a copy: an IP header and a TCP header with all their options. A SYN is longer only with data (TCP Fast
/// Open).
const COPIED: u32 = 120;

/// Receive buffer for copies. The kernel accounts each copy twice.
const ROOM: usize = 1024 * 1024;

/// Length of the kernel's buffer for copies: a page, 8 KiB at most.
const DATAGRAM: usize = 8 * 1024;

/// Maximum number of copies in one read, so that other tasks can run.
const TURN: usize = 1024;

/// Packets cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("opening a socket for copies of packets")]
    Open(#[from] netns::Error),
    #[error("binding nflog group {group}")]
    Bind { group: u16, source: Rejected },
    #[error("preparing the socket of nflog group {group}")]
    Prepare { group: u16, source: io::Error },
    #[error("receiving copies of nflog group {group}")]
    Receive { group: u16, source: io::Error },
}

/// A copied packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The first bytes of the packet, from the IP header on; at most 120.
    pub payload: &'a [u8],
    /// The netfilter hook; 3 is output.
    pub hook: Option<u8>,
    /// The rule's `log prefix`.
    pub prefix: Option<&'a str>,
}

/// The packets of a datagram. Other messages and packets without a payload are skipped.
pub fn packets(datagram: &[u8]) -> impl Iterator<Item = Packet<'_>> {
    let kind = u16::from_be_bytes([SUBSYSTEM, PACKET]);
    messages(datagram)
        .filter(move |message| message.kind == kind)
        .filter_map(|message| packet(message.body.get(FAMILY..)?))
}

fn packet(bytes: &[u8]) -> Option<Packet<'_>> {
    let mut payload = None;
    let mut hook = None;
    let mut prefix = None;
    for attribute in attributes(bytes) {
        match attribute.kind {
            // The hook follows the protocol.
            HEADER => hook = attribute.value.get(2).copied(),
            PAYLOAD => payload = Some(attribute.value),
            PREFIX => prefix = attribute.text(),
            _ => {}
        }
    }
    payload.map(|payload| Packet {
        payload,
        hook,
        prefix,
    })
}

/// The reader of one group in one network namespace.
#[derive(Debug)]
pub struct Log {
    group: u16,
    socket: AsyncFd<Socket>,
    buffer: Box<[u8; DATAGRAM]>,
}

impl Log {
    /// Requires a tokio runtime on the thread. Call it before the rules exist.
    pub fn bind(netns: &Netns, group: u16) -> Result<Self, Error> {
        let socket = netns.netlink(Protocol::Netfilter)?;
        let prepare = |source| Error::Prepare { group, source };
        socket.make_room(ROOM).map_err(prepare)?;
        let request = message(SUBSYSTEM, CONFIGURE, group, message::ACK, |body| {
            attribute::put(body, COMMAND, &[COMMAND_BIND]);
            let [a, b, c, d] = COPIED.to_be_bytes();
            attribute::put(body, MODE, &[a, b, c, d, MODE_PACKET, 0]);
            // Disables batching, so that each packet arrives at once.
            attribute::put_u32(body, THRESHOLD, 1);
        });
        configure(&socket, &request).map_err(|source| Error::Bind { group, source })?;
        Ok(Self {
            group,
            socket: readiness::register(socket).map_err(prepare)?,
            buffer: Box::new([0; DATAGRAM]),
        })
    }

    /// Waits for packets and passes up to 1,024 of them to `take`. Dropping the future loses none.
    pub async fn receive(&mut self, mut take: impl FnMut(Packet<'_>)) -> Result<(), Error> {
        let guard = self.socket.readable().await;
        let mut guard = guard.map_err(receive_error(self.group))?;
        let socket = guard.get_inner();
        if read(socket, &mut self.buffer[..], &mut take).map_err(receive_error(self.group))? {
            guard.clear_ready();
        }
        Ok(())
    }

    /// Number of copies that the kernel has dropped so far for lack of room; 0 if it does not report it.
    pub fn dropped(&self) -> u32 {
        self.socket.get_ref().drops().unwrap_or(0)
    }

    /// Passes up to 1,024 available packets to `take`, without waiting for more.
    pub fn drain(&mut self, mut take: impl FnMut(Packet<'_>)) -> Result<(), Error> {
        read(self.socket.get_ref(), &mut self.buffer[..], &mut take)
            .map(drop)
            .map_err(receive_error(self.group))
    }
}

fn receive_error(group: u16) -> impl Fn(io::Error) -> Error {
    move |source| Error::Receive { group, source }
}

/// Reads available packets; true if all were read.
fn read(socket: &Socket, buffer: &mut [u8], take: &mut impl FnMut(Packet<'_>)) -> io::Result<bool> {
    for _ in 0..TURN {
        match socket.receive(buffer) {
            Ok(None) => return Ok(true),
            Ok(Some(length)) => packets(&buffer[..length]).for_each(&mut *take),
            // Copies were lost, or a copy was too long.
            Err(error) if is_loss(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

fn is_loss(error: &io::Error) -> bool {
    [Errno::ENOBUFS, Errno::EMSGSIZE]
        .map(|errno| Some(errno as i32))
        .contains(&error.raw_os_error())
}
