//! TCP sockets that have ended. The kernel sends a notification of each to a multicast group of sock_diag
//! ([`sock_diag_broadcast_destroy`](https://github.com/torvalds/linux/blob/v6.18/net/core/sock_diag.c)), so that a
//! connection between two dumps is not missed. Linux 4.3, no privilege. Without a member of the group the kernel sends
//! nothing.

use std::io;

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
/// Maximum number of datagrams in one call: a pod that opens and closes connections on many processors can fill the
/// queue as fast as it is read.
const TURN: usize = 16 * 1024;

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

    /// Passes each socket that has ended since the last call to `take`, up to 16,384 of them. Returns true if some are
    /// missing: the queue overflowed, or there are more.
    pub fn read(&self, take: impl FnMut(Socket)) -> Result<bool, Error> {
        read(|buffer| self.socket.receive(buffer), take).map_err(Error::Ended)
    }
}

fn read(
    mut receive: impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
    mut take: impl FnMut(Socket),
) -> io::Result<bool> {
    let mut is_incomplete = false;
    let mut buffer = vec![0; DATAGRAM];
    for _ in 0..TURN {
        let length = match receive(&mut buffer) {
            Ok(None) => return Ok(is_incomplete),
            Ok(Some(length)) => length,
            Err(error) if is(&error, Errno::ENOBUFS) => {
                is_incomplete = true;
                continue;
            }
            Err(error) => return Err(error),
        };
        for message in message::messages(&buffer[..length]) {
            let socket = decode(message.body, Protocol::Tcp);
            if let Some(socket) = socket.filter(|_| message.kind == BY_FAMILY) {
                take(socket);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TCP_CLOSE`.
    const CLOSE: u8 = 7;

    /// Reads a queue with this number of results of receive(2); returns how many were read, and whether some are missing.
    fn read_queue(
        mut queued: usize,
        result: impl Fn(&mut [u8]) -> io::Result<usize>,
    ) -> (usize, usize, bool) {
        let (mut calls, mut taken) = (0, 0);
        let receive = |buffer: &mut [u8]| {
            if queued == 0 {
                return Ok(None);
            }
            (queued, calls) = (queued - 1, calls + 1);
            result(buffer).map(Some)
        };
        let is_incomplete = read(receive, |_socket| taken += 1).unwrap();
        (calls, taken, is_incomplete)
    }

    /// A notification of an ended socket of IPv4.
    fn notification(buffer: &mut [u8]) -> io::Result<usize> {
        let mut datagram = Vec::new();
        message::put(&mut datagram, BY_FAMILY, 0, 0, |body| {
            let mut socket = [0; 72];
            socket[..2].copy_from_slice(&[libc::AF_INET as u8, CLOSE]);
            body.extend_from_slice(&socket);
        });
        buffer[..datagram.len()].copy_from_slice(&datagram);
        Ok(datagram.len())
    }

    #[test]
    fn one_call_reads_a_limited_number() {
        assert_eq!(read_queue(3, notification), (3, 3, false));
        assert_eq!(read_queue(TURN + 1, notification), (TURN, TURN, true));
    }

    /// The queue may overflow again after each error.
    #[test]
    fn overflows_count_as_well() {
        let overflow = |_buffer: &mut [u8]| Err(Errno::ENOBUFS.into());
        assert_eq!(read_queue(1, overflow), (1, 0, true));
        assert_eq!(read_queue(TURN + 1, overflow), (TURN, 0, true));
    }
}
