//! The node's network namespace, in which the agent serves on loopback.

use std::{
    fs::File,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    os::fd::AsRawFd,
};

use nix::sys::socket::{AddressFamily, SockaddrIn, connect};
use usher_sys::net::netns::Netns;
use usher_tests::wait::patience;

use crate::lab::Lab;

pub(super) const METRICS: u16 = 9643;
pub(super) const PROBES: u16 = 9644;

pub(super) struct NodeNetwork(Netns);

impl NodeNetwork {
    pub(super) fn of(lab: &Lab) -> Self {
        let root = lab.cluster.node_root().expect("the node is up");
        let file = File::open(root.join("proc/1/ns/net")).unwrap();
        Self(Netns::from_fd(file.into()).unwrap())
    }

    /// A connection to a port on loopback; None if it fails.
    pub(super) fn connect(&self, port: u16) -> Option<TcpStream> {
        let stream = TcpStream::from(self.0.tcp_socket(AddressFamily::Inet).ok()?);
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(patience())).ok()?;
        let address = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
        connect(stream.as_raw_fd(), &address).ok()?;
        Some(stream)
    }

    /// The status of a probe; None without a response.
    pub(super) fn probe(&self, path: &str) -> Option<u16> {
        let mut stream = self.connect(PROBES)?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        response.split(' ').nth(1)?.parse().ok()
    }
}
