//! The server for connections that are redirected to a mesh's proxy: it reports their original destination.
//!
//! `SO_ORIGINAL_DST` reads it from the connection tracking of the socket's network
//! namespace
//! ([nf_conntrack_l3proto](https://github.com/torvalds/linux/blob/v6.18/net/netfilter/nf_conntrack_proto.c#L254)).
//! One thread per port, because 200 simultaneous connections come from one client
//! that is measured on the same cores.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use nix::sys::socket::{Backlog, getsockopt, listen, sockopt};

/// The accept backlog; with the standard library's 128 the
/// other connections would retransmit.
const BACKLOG: i32 = 4096;
/// A silent client must not block the others.
const PATIENCE: Duration = Duration::from_secs(1);

/// Responds to each line with the destination of the client.
pub(super) fn serve(socket: TcpListener) -> std::io::Result<Option<TcpListener>> {
    listen(&socket, Backlog::new(BACKLOG)?)?;
    std::thread::spawn(move || {
        for mut stream in socket.incoming().map_while(Result::ok) {
            // A disconnected client needs no response.
            drop(answer(&mut stream));
        }
    });
    Ok(None)
}

fn answer(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = [0; 64];
    if stream.read(&mut line)? == 0 {
        return Ok(());
    }
    let meant = original(stream).map_or_else(|| stream.local_addr(), Ok)?;
    stream.write_all(format!("{meant}\n").as_bytes())
}

/// None if the connection was not redirected.
fn original(stream: &TcpStream) -> Option<SocketAddr> {
    if let Ok(found) = getsockopt(stream, sockopt::OriginalDst) {
        let address = Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr));
        return Some((address, u16::from_be(found.sin_port)).into());
    }
    let found = getsockopt(stream, sockopt::Ip6tOriginalDst).ok()?;
    let address = Ipv6Addr::from(found.sin6_addr.s6_addr);
    Some((address, u16::from_be(found.sin6_port)).into())
}

/// Sends each datagram back.
pub(super) fn come_back(port: u16) -> std::io::Result<Option<TcpListener>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
    std::thread::spawn(move || {
        let mut block = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut block) {
            drop(socket.send_to(&block[..length], from));
        }
    });
    Ok(None)
}
