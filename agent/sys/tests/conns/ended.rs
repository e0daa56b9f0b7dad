//! Inputs of a pod's traffic measurement: listeners, open connections, and ended connections.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use usher_core::node::socket::{Socket, State};
use usher_sys::net::{
    netns::Netns,
    sockdiag::{EndedSockets, Sockets},
};

use crate::scratch::{inside, soon};

fn connections(netns: &Netns) -> Vec<Socket> {
    let mut found = Vec::new();
    let mut sockets = Sockets::open(netns).unwrap();
    sockets.connections(|socket| found.push(socket)).unwrap();
    found
}

#[test]
fn connection_that_has_ended_is_reported_with_its_bytes() {
    inside(|netns| async move {
        let ended = EndedSockets::open(&netns).unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let at = listener.local_addr().unwrap();
            let mut client = TcpStream::connect(at).unwrap();
            let (mut server, from) = listener.accept().unwrap();
            client.write_all(b"12345").unwrap();
            server.read_exact(&mut [0; 5]).unwrap();
            let is_server = |socket: &&Socket| (socket.local, socket.peer) == (at, from);
            let open = connections(&netns);
            let open = open.iter().find(is_server).unwrap();
            assert_eq!(open.received, Some(5));
            let mut listeners = Vec::new();
            let mut sockets = Sockets::open(&netns).unwrap();
            sockets.listeners(|socket| listeners.push(socket)).unwrap();
            let is_listener = |socket: &Socket| (socket.local, socket.state) == (at, State::Listen);
            assert!(listeners.iter().any(is_listener), "{listeners:?}");

            // The client closes first, so that the server leaves no TIME-WAIT.
            drop(client);
            soon(|| {
                let open = connections(&netns);
                let open = open.iter().find(is_server);
                open.is_some_and(|socket| socket.state == State::CloseWait)
            })
            .await;
            drop(server);
            let mut found = Vec::new();
            soon(|| {
                assert!(!ended.read(|socket| found.push(socket)).unwrap());
                found.iter().any(|socket| is_server(&socket))
            })
            .await;
            let server = found.iter().find(is_server).unwrap();
            // The FIN counts as one byte.
            assert_eq!((server.cookie, server.received), (open.cookie, Some(6)));
            assert_eq!(connections(&netns).iter().find(is_server), None);
        }
    });
}

/// The queue is bounded, and the reader is notified of an overflow.
#[test]
fn overflow_is_reported_once() {
    inside(|netns| async move {
        let ended = EndedSockets::open(&netns).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        soon(|| {
            for _ in 0..500 {
                drop(TcpStream::connect(at).unwrap());
                drop(listener.accept().unwrap());
            }
            ended.read(drop).unwrap()
        })
        .await;
        soon(|| !ended.read(drop).unwrap()).await;
    });
}
