//! Connections to loopback in a sidecar's network namespace.
//!
//! The first socket is opened when the sidecar starts, since opening one takes
//! a thread that has to be started and waited for. It keeps the namespace alive
//! no longer than the sidecar does: it is closed when that ends.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::OwnedFd,
};

use nix::{errno::Errno, sys::socket::AddressFamily};
use tokio::net::TcpStream;
use usher_client::error_chain::chain;
use usher_core::quit::outcome::Outcome;
use usher_sys::net::{
    netns::{self, Netns},
    tcp,
};

use super::Target;

/// An address family and its loopback address.
type Place = (AddressFamily, IpAddr);

/// Where sidecars listen for it: most on both, some on one of them.
const LOOPBACK: [Place; 2] = [
    (AddressFamily::Inet, IpAddr::V4(Ipv4Addr::LOCALHOST)),
    (AddressFamily::Inet6, IpAddr::V6(Ipv6Addr::LOCALHOST)),
];

/// A TCP socket in a sidecar's network namespace, and where it is to connect
/// to.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    loopback: IpAddr,
}

/// The places to try, in order.
pub(super) const fn places() -> [Place; 2] {
    LOOPBACK
}

/// Opens the first socket for a sidecar.
pub(crate) fn prepare(target: Target<'_>) -> Result<Socket, Outcome> {
    let [first, _second] = LOOPBACK;
    open(target, first)
}

/// Opens a socket in the namespace that the sidecar was started in.
pub(super) fn open(target: Target<'_>, place: Place) -> Result<Socket, Outcome> {
    let Target { host, init, .. } = target;
    let (family, loopback) = place;
    let netns = Netns::of_process(&host.proc, init.pidfd.pid());
    // The order matters: a process that is alive now had its number when its
    // namespace was opened.
    if !init.pidfd.is_alive() {
        return Err(Outcome::Gone);
    }
    let failed = |error: netns::Error| Outcome::Failed(chain(&error));
    let netns = netns.map_err(failed)?;
    let why = if netns.id() == host.netns {
        "it is in the host's network namespace".to_owned()
    } else if netns.id() != init.netns {
        format!("it is in {}, started in {}", netns.id(), init.netns)
    } else {
        let fd = netns.tcp_socket(family).map_err(failed)?;
        return Ok(Socket { fd, loopback });
    };
    Err(Outcome::Failed(why))
}

/// Connects. On loopback the handshake is over when the system call returns, so
/// this asks before it waits: waiting is a turn of the event loop, which takes
/// longer than the handshake.
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
