//! A connection attempt.

use std::{
    io::{Error, ErrorKind},
    net::{SocketAddr, TcpStream as StdStream},
    os::fd::AsRawFd,
};

use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, socket},
};
use tokio::net::TcpStream;

/// A pending connection.
pub(crate) struct Attempt(TcpStream);

impl Attempt {
    /// Sends the SYN, which has reached the table when this returns.
    pub(crate) fn start(host: &str, port: u16) -> Self {
        let there: SocketAddr = format!("{host}:{port}").parse().unwrap();
        let family = match there {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(family, SockType::Stream, flags, None).unwrap();
        let started = connect(socket.as_raw_fd(), &SockaddrStorage::from(there));
        assert_eq!(started, Err(Errno::EINPROGRESS));
        Self(TcpStream::from_std(StdStream::from(socket)).unwrap())
    }

    /// Whether no reply has arrived so far.
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.take_error().unwrap().is_none()
            && self.0.peer_addr().map_err(|error| error.kind()) == Err(ErrorKind::NotConnected)
    }

    async fn ended(&self) -> Option<Error> {
        self.0.writable().await.unwrap();
        self.0.take_error().unwrap()
    }

    /// Waits until the connection is established.
    pub(crate) async fn connected(self) -> TcpStream {
        let error = self.ended().await;
        assert!(error.is_none(), "{error:?}");
        self.0
    }

    /// Waits until it is refused.
    pub(crate) async fn refused(self) {
        let error = self.ended().await.map(|error| error.kind());
        assert_eq!(error, Some(ErrorKind::ConnectionRefused));
    }
}
