//! TCP connections over sockets of other network namespaces.

use std::{
    io,
    net::{self, IpAddr, SocketAddr},
    os::fd::{AsRawFd, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::socket::{self, SockaddrStorage},
};
use tokio::net::TcpStream;

/// Connects a TCP socket, which may be in any network namespace.
pub async fn connect(fd: OwnedFd, to: IpAddr, port: u16) -> io::Result<TcpStream> {
    let address = SockaddrStorage::from(SocketAddr::new(to, port));
    match socket::connect(fd.as_raw_fd(), &address) {
        Ok(()) | Err(Errno::EINPROGRESS) => {}
        Err(errno) => return Err(errno.into()),
    }
    let stream = TcpStream::from_std(net::TcpStream::from(fd))?;
    while stream.peer_addr().is_err() {
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        stream.writable().await?;
    }
    Ok(stream)
}
