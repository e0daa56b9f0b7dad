//! Connections to loopback in a sidecar's network namespace.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{BorrowedFd, OwnedFd},
};

use nix::{errno::Errno, sys::socket::AddressFamily};
use tokio::net::TcpStream;
use usher_client::error_chain::chain;
use usher_core::quit::outcome::Outcome;
use usher_sys::{
    net::{netns::Netns, tcp},
    pods::pidfd,
};

/// The addresses of sidecars' listeners: most use both, some only one.
const LOOPBACK: [(AddressFamily, IpAddr); 2] = [
    (PREPARED, IpAddr::V4(Ipv4Addr::LOCALHOST)),
    (AddressFamily::Inet6, IpAddr::V6(Ipv6Addr::LOCALHOST)),
];

/// The family of the socket that the agent opens for the first request.
pub(crate) const PREPARED: AddressFamily = AddressFamily::Inet;

/// Connects to a port on one of the loopback addresses of a network namespace.
///
/// With the pidfd of a sidecar, nothing is sent to a namespace that the sidecar has left.
pub(super) async fn connect(
    netns: &Netns,
    sidecar: Option<BorrowedFd<'_>>,
    mut prepared: Option<OwnedFd>,
    port: u16,
) -> Result<TcpStream, Outcome> {
    for (family, address) in LOOPBACK {
        if sidecar.is_some_and(|sidecar| !pidfd::is_alive(sidecar)) {
            return Err(Outcome::Gone);
        }
        let socket = match prepared.take() {
            Some(socket) => socket,
            None => match netns.tcp_socket(family) {
                Ok(socket) => socket,
                Err(error) if error.is_unsupported_family() => continue,
                Err(error) => return Err(Outcome::Failed(chain(&error))),
            },
        };
        // On loopback the system call completes the handshake, so the result is checked before waiting: a turn of the
        // event loop would take longer than the handshake.
        match tcp::connect(socket, address, port).await {
            Ok(stream) => return Ok(stream),
            Err(error) if is_refused(&error) => {}
            Err(error) => {
                return Err(Outcome::Failed(format!(
                    "connecting to port {port}: {error}"
                )));
            }
        }
    }
    Err(Outcome::Refused)
}

/// Whether the connection was refused, or the namespace has no address of this family.
fn is_refused(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ECONNREFUSED | Errno::EADDRNOTAVAIL | Errno::ENETUNREACH)
    )
}
