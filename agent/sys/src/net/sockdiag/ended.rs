//! TCP sockets that have ended. The kernel sends a notification of each to a multicast group of sock_diag
//! ([`sock_diag_broadcast_destroy`](https://github.com/torvalds/linux/blob/v6.18/net/core/sock_diag.c)), so that a
//! connection between two dumps is not missed. Linux 4.3, no privilege. Without a member of the group the kernel sends
//! nothing.

use nix::errno::Errno;
use usher_core::node::socket::{Protocol, Socket};

use super::{BY_FAMILY, Error, decode, is};
use crate::net::{
    netlink::{self, message},
    netns::Netns,
};

/// `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY`.
const GROUPS: [u32; 2] = [1, 3];
/// A notification has less than 1 KiB.
const DATAGRAM: usize = 4096;

/// The notifications of one network namespace. The kernel queues as many as fit in the socket's receive buffer.
#[derive(Debug)]
pub struct EndedSockets {
    socket: netlink::Socket,
}

impl EndedSockets {
    /// Opens a netlink socket in the namespace and joins the groups.
    pub fn open(netns: &Netns) -> Result<Self, Error> {
        let socket = netns.netlink(netlink::Protocol::SockDiag)?;
        for group in GROUPS {
            socket.join(group).map_err(Error::Ended)?;
        }
        Ok(Self { socket })
    }

    /// Passes each socket that has ended since the last call to `take`. Returns true if the queue overflowed, so that
    /// some are missing.
    pub fn read(&self, mut take: impl FnMut(Socket)) -> Result<bool, Error> {
        let mut is_full = false;
        let mut buffer = vec![0; DATAGRAM];
        loop {
            let length = match self.socket.receive(&mut buffer) {
                Ok(None) => return Ok(is_full),
                Ok(Some(length)) => length,
                Err(error) if is(&error, Errno::ENOBUFS) => {
                    is_full = true;
                    continue;
                }
                Err(error) => return Err(Error::Ended(error)),
            };
            for message in message::messages(&buffer[..length]) {
                let socket = decode(message.body, Protocol::Tcp);
                if let Some(socket) = socket.filter(|_| message.kind == BY_FAMILY) {
                    take(socket);
                }
            }
        }
    }
}
