//! Sends whole IP packets into a network namespace through its
//! [raw(7)](https://man7.org/linux/man-pages/man7/raw.7.html) sockets.
//!
//! The packets take the same path as the app's: routing by destination, then the output hooks, so that the mesh
//! redirects them as well. The kernel rejects a packet for a link-local IPv6 address, because its interface is unknown;
//! its connection continues at the next retransmission.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsRawFd, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, MsgFlags, SockaddrStorage, sendto},
};

use crate::net::netns::{self, Netns};

/// A packet could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("opening a raw socket")]
    Open(#[from] netns::Error),
    #[error("sending a packet to {destination} where there is no IPv6")]
    NoIpv6 { destination: SocketAddr },
    #[error("sending a packet to {destination}")]
    Send {
        destination: SocketAddr,
        source: io::Error,
    },
}

/// Raw sockets of one network namespace.
#[derive(Debug)]
pub struct Injector {
    ipv4: OwnedFd,
    ipv6: Option<OwnedFd>,
}

impl Injector {
    /// Needs `CAP_NET_RAW`.
    pub fn open(netns: &Netns) -> Result<Self, Error> {
        let ipv6 = match netns.raw_socket(AddressFamily::Inet6) {
            Err(netns::Error::Socket { source, .. })
                if source.raw_os_error() == Some(Errno::EAFNOSUPPORT as i32) =>
            {
                None
            }
            opened => Some(opened?),
        };
        Ok(Self {
            ipv4: netns.raw_socket(AddressFamily::Inet)?,
            ipv6,
        })
    }

    /// Sends a packet, IP header first, to its destination. Returns whether it was sent: a rule may drop it (`EPERM`),
    /// as usher's table does for a held port.
    ///
    /// # Errors
    /// [`Error::NoIpv6`] or [`Error::Send`], also if the socket's buffer is full: the call never waits.
    pub fn send(&self, packet: &[u8], destination: SocketAddr) -> Result<bool, Error> {
        let socket = match destination {
            SocketAddr::V4(_) => &self.ipv4,
            SocketAddr::V6(_) => self.ipv6.as_ref().ok_or(Error::NoIpv6 { destination })?,
        };
        // In a raw socket's address the port is a protocol; 0 selects the socket's own.
        let to = SockaddrStorage::from(SocketAddr::new(destination.ip(), 0));
        match send(socket, packet, &to) {
            Ok(()) => Ok(true),
            Err(Errno::EPERM) => Ok(false),
            Err(errno) => Err(Error::Send {
                destination,
                source: errno.into(),
            }),
        }
    }
}

fn send(socket: &OwnedFd, packet: &[u8], to: &SockaddrStorage) -> nix::Result<()> {
    loop {
        match sendto(socket.as_raw_fd(), packet, to, MsgFlags::empty()) {
            Err(Errno::EINTR) => {}
            sent => return sent.map(drop),
        }
    }
}
