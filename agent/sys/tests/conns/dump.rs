//! Each socket that a test opens is listed correctly.

use std::{
    collections::HashSet,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd,
};

use nix::sys::socket::{setsockopt, sockopt};
use usher_core::node::socket::{Protocol, Socket, State, TimerKind};
use usher_sys::net::{
    netns::Netns,
    sockdiag::{Dumped, Sockets, Wanted},
};

use crate::scratch::{inside, lead_nowhere, soon};

fn dump(netns: &Netns, detail: bool) -> Vec<Socket> {
    let wanted = Wanted {
        protocols: vec![Protocol::Tcp, Protocol::Udp],
        detail,
    };
    let mut found = Vec::new();
    let mut sockets = Sockets::open(netns).unwrap();
    let dumped = sockets.dump(&wanted, |socket| found.push(socket)).unwrap();
    assert_eq!(dumped, Dumped::default());
    found
}

fn only(found: &[Socket], fits: impl Fn(&Socket) -> bool) -> Socket {
    let mut fitting = found.iter().filter(|socket| fits(socket));
    let socket = fitting.next().unwrap().clone();
    assert_eq!(fitting.next(), None);
    socket
}

fn inode(fd: &impl AsRawFd) -> u32 {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
    let link = link.to_str().unwrap();
    let number = link.strip_prefix("socket:[").unwrap();
    number.strip_suffix(']').unwrap().parse().unwrap()
}

#[test]
fn listeners_and_their_queues() {
    inside(|netns| async move {
        assert_eq!(dump(&netns, true), []);
        let v4 = TcpListener::bind("127.0.0.1:0").unwrap();
        let both = TcpListener::bind("[::]:0").unwrap();
        let at = v4.local_addr().unwrap();
        let _waiting = [(); 3].map(|()| TcpStream::connect(at).unwrap());
        let found = dump(&netns, false);
        let listener = only(&found, |socket| socket.inode == inode(&v4));
        assert_eq!((listener.state, listener.local), (State::Listen, at));
        // The standard library's backlog.
        assert_eq!((listener.receive_queue, listener.send_queue), (3, 128));
        assert!(listener.waits() && !listener.has_peer() && !listener.both_families);
        let listener = only(&found, |socket| socket.inode == inode(&both));
        assert!(
            listener.both_families && listener.covers(at) == (listener.local.port() == at.port())
        );
        // Both ends of each connection are listed. The accepted end has no descriptor.
        let ends = found
            .iter()
            .filter(|socket| socket.state == State::Established);
        let (open, queued): (Vec<_>, Vec<_>) = ends.partition(|socket| socket.inode != 0);
        assert_eq!((open.len(), queued.len()), (3, 3));
        assert!(queued.iter().all(|socket| socket.local == at));
        let numbers: HashSet<u64> = found.iter().map(|socket| socket.cookie).collect();
        assert_eq!(numbers.len(), found.len());
        // An IPv6-only socket.
        let six = socket2("[::]:0");
        let found = dump(&netns, false);
        assert!(!only(&found, |socket| socket.inode == inode(&six)).both_families);
    });
}

fn socket2(address: &str) -> tokio::net::TcpListener {
    let socket = tokio::net::TcpSocket::new_v6().unwrap();
    setsockopt(&socket, sockopt::Ipv6V6Only, &true).unwrap();
    socket.bind(address.parse().unwrap()).unwrap();
    socket.listen(7).unwrap()
}

#[test]
fn connections_and_their_queues() {
    inside(|netns| async move {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let at = listener.local_addr().unwrap();
            let client = TcpStream::connect(at).unwrap();
            let (server, from) = listener.accept().unwrap();
            std::io::Write::write_all(&mut &client, b"12345").unwrap();
            let found = dump(&netns, true);
            let end = only(&found, |socket| socket.inode == inode(&client));
            assert_eq!((end.local, end.peer), (from, at));
            assert_eq!(end.state, State::Established);
            assert!(end.rtt.is_some(), "{end:?}");
            assert_eq!((end.all_retransmits, end.drops), (Some(0), Some(0)));
            let end = only(&found, |socket| socket.inode == inode(&server));
            assert_eq!((end.local, end.peer), (at, from));
            assert_eq!(end.receive_queue, 5);
            // Without details the list has no such values.
            let found = dump(&netns, false);
            let end = only(&found, |socket| socket.inode == inode(&client));
            assert_eq!((end.rtt, end.drops), (None, None));
            // Read the data first: otherwise the close would reset the connection.
            std::io::Read::read_exact(&mut &server, &mut [0; 5]).unwrap();
            drop(client);
            soon(|| {
                let found = dump(&netns, false);
                let left = found.iter().find(|socket| socket.inode == inode(&server));
                left.is_some_and(|socket| socket.state == State::CloseWait)
            })
            .await;
            drop(server);
            soon(|| {
                let found = dump(&netns, false);
                let over = found.iter().find(|socket| socket.local == from);
                over.is_some_and(|socket| {
                    let kind = socket.timer.map(|timer| timer.kind);
                    socket.state == State::TimeWait && kind == Some(TimerKind::TimeWait)
                })
            })
            .await;
        }
    });
}

#[test]
fn connection_without_a_reply() {
    inside(|netns| async move {
        lead_nowhere();
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        let there: SocketAddr = "198.51.100.7:80".parse().unwrap();
        let connecting = tokio::spawn(socket.connect(there));
        soon(|| {
            let found = dump(&netns, true);
            let ours = found.iter().find(|socket| socket.peer == there);
            ours.is_some_and(|socket| {
                let kind = socket.timer.map(|timer| timer.kind);
                socket.state == State::SynSent && kind == Some(TimerKind::Retransmit)
            })
        })
        .await;
        connecting.abort();
    });
}

#[test]
fn datagram_sockets() {
    inside(|netns| async move {
        let open = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = open.local_addr().unwrap();
        let connected = UdpSocket::bind("127.0.0.1:0").unwrap();
        connected.connect(at).unwrap();
        connected.send(b"123").unwrap();
        let six = UdpSocket::bind("[::]:0").unwrap();
        let found = dump(&netns, true);
        assert_eq!(found.len(), 3);
        let socket = only(&found, |socket| socket.inode == inode(&open));
        assert_eq!(
            (socket.protocol, socket.state),
            (Protocol::Udp, State::Unconnected)
        );
        assert!(socket.waits() && socket.receive_queue >= 3, "{socket:?}");
        assert_eq!(socket.drops, Some(0));
        let socket = only(&found, |socket| socket.inode == inode(&connected));
        assert_eq!((socket.state, socket.peer), (State::Established, at));
        assert!(!socket.waits());
        let socket = only(&found, |socket| socket.inode == inode(&six));
        assert!(socket.both_families);
    });
}

#[test]
fn list_of_many_pages_is_complete() {
    const MANY: usize = 1500;
    inside(|netns| async move {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let mut ends = Vec::new();
        for _ in 0..MANY {
            let client = TcpStream::connect(at).unwrap();
            ends.push((client, listener.accept().unwrap().0));
        }
        for detail in [false, true] {
            let found = dump(&netns, detail);
            assert_eq!(found.len(), 2 * MANY + 1);
            let inodes: HashSet<u32> = found.iter().map(|socket| socket.inode).collect();
            for (client, server) in &ends {
                assert!(inodes.contains(&inode(client)) && inodes.contains(&inode(server)));
            }
        }
    });
}
