//! Connections to loopback in a sidecar's network namespace.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::OwnedFd,
};

use nix::{errno::Errno, sys::socket::AddressFamily};
use tokio::net::TcpStream;
use usher_sys::net::{
    netns::{self, Netns},
    tcp,
};

type Place = (AddressFamily, IpAddr);

/// The addresses of sidecars' listeners: most use both, some only one.
const LOOPBACK: [Place; 2] = [
    (AddressFamily::Inet, IpAddr::V4(Ipv4Addr::LOCALHOST)),
    (AddressFamily::Inet6, IpAddr::V6(Ipv6Addr::LOCALHOST)),
];

/// A TCP socket in a sidecar's network namespace, and the address to connect to.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    loopback: IpAddr,
}

impl Socket {
    /// The socket that the agent opened for the first request.
    pub(super) fn prepared(fd: OwnedFd) -> Self {
        let [(_family, loopback), _second] = LOOPBACK;
        Self { fd, loopback }
    }
}

/// The addresses to try, in order.
pub(super) const fn places() -> [Place; 2] {
    LOOPBACK
}

/// The family of the socket that the agent opens for the first request.
pub(crate) const PREPARED: AddressFamily = LOOPBACK[0].0;

pub(super) fn open(netns: &Netns, place: Place) -> Result<Socket, netns::Error> {
    let (family, loopback) = place;
    let fd = netns.tcp_socket(family)?;
    Ok(Socket { fd, loopback })
}

/// Connects. On loopback the system call completes the handshake, so the result is checked before waiting: a turn of
/// the event loop would take longer than the handshake.
pub(super) async fn connect(socket: Socket, port: u16) -> io::Result<TcpStream> {
    tcp::connect(socket.fd, socket.loopback, port).await
}

/// Whether the connection was refused, or the namespace has no address of this family.
pub(super) fn is_refused(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ECONNREFUSED | Errno::EADDRNOTAVAIL | Errno::ENETUNREACH)
    )
}
