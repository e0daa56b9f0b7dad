//! Lookups of single sockets.

use std::net::SocketAddr;

use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use usher_core::hold::syn::Connection;
use usher_sys::net::{
    netns::Netns,
    sockdiag::{Sockets, State},
};

use crate::scratch::{ADDRESS, ELSEWHERE, ELSEWHERE_V6, inside, lead_nowhere, soon};

const PORT: u16 = 15001;

fn socket(address: &str) -> (TcpSocket, SocketAddr) {
    let address: SocketAddr = format!("{address}:{PORT}").parse().unwrap();
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    (socket.unwrap(), address)
}

fn listener(address: &str, prepare: impl Fn(&TcpSocket)) -> TcpListener {
    let (socket, address) = socket(address);
    prepare(&socket);
    socket.bind(address).unwrap();
    socket.listen(16).unwrap()
}

fn sockets(netns: &Netns) -> Sockets {
    let mut sockets = Sockets::open(netns).unwrap();
    assert!(sockets.is_supported().unwrap());
    assert!(!sockets.listens(PORT).unwrap());
    sockets
}

#[test]
fn every_listener_reachable_by_loopback_is_found() {
    type Prepare = fn(&TcpSocket);
    let nothing: Prepare = |_| {};
    let only_v6: Prepare = |socket| setsockopt(socket, sockopt::Ipv6V6Only, &true).unwrap();
    let shared: Prepare = |socket| socket.set_reuseport(true).unwrap();
    let bound: Prepare = |socket| socket.bind_device(Some(b"lo")).unwrap();
    let cases = [
        ("127.0.0.1", nothing),
        ("0.0.0.0", nothing),
        ("[::]", nothing),
        ("[::]", only_v6),
        ("[::1]", nothing),
        // The address that Java uses for 127.0.0.1.
        ("[::ffff:127.0.0.1]", nothing),
        ("127.0.0.1", shared),
        ("[::]", shared),
        ("127.0.0.1", bound),
        ("[::1]", bound),
    ];
    inside(|netns| async move {
        let mut sockets = sockets(&netns);
        for (number, (address, prepare)) in cases.into_iter().enumerate() {
            let first = listener(address, prepare);
            assert!(sockets.listens(PORT).unwrap(), "{number}: {address}");
            assert!(!sockets.listens(PORT + 1).unwrap(), "{number}: {address}");
            drop(first);
            soon(|| !sockets.listens(PORT).unwrap()).await;
        }
        // A reuseport group whose first member is closed.
        let [first, second] = [(); 2].map(|()| listener("0.0.0.0", shared));
        drop(first);
        assert!(sockets.listens(PORT).unwrap());
        drop(second);
        soon(|| !sockets.listens(PORT).unwrap()).await;
    });
}

#[test]
fn other_sockets_are_no_listeners() {
    inside(|netns| async move {
        lead_nowhere();
        let mut sockets = sockets(&netns);
        // A bound socket that does not listen.
        let (own, address) = socket("127.0.0.1");
        own.bind(address).unwrap();
        assert!(!sockets.listens(PORT).unwrap());
        // A client with this port, first connecting, then connected.
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = own.connect(server.local_addr().unwrap()).await.unwrap();
        assert!(!sockets.listens(PORT).unwrap());
        // TIME_WAIT.
        let (accepted, _) = server.accept().await.unwrap();
        let connection = Connection {
            source: client.local_addr().unwrap(),
            destination: server.local_addr().unwrap(),
        };
        drop(client);
        drop((accepted, server));
        assert_eq!(sockets.state(connection).unwrap(), Some(State::Other));
        assert!(!sockets.listens(PORT).unwrap());
        // Another address of the pod.
        let elsewhere = listener(ADDRESS, |_| {});
        assert!(!sockets.listens(PORT).unwrap());
        drop(elsewhere);
        // A connection of a closed listener.
        let ended = listener("127.0.0.2", |socket| socket.set_reuseaddr(true).unwrap());
        let client = TcpStream::connect(ended.local_addr().unwrap())
            .await
            .unwrap();
        let (accepted, _) = ended.accept().await.unwrap();
        drop(ended);
        assert!(!sockets.listens(PORT).unwrap());
        drop((client, accepted));
    });
}

#[test]
fn state_of_a_connection() {
    inside(|netns| async move {
        lead_nowhere();
        let mut sockets = sockets(&netns);
        for there in [format!("{ELSEWHERE}:80"), format!("[{ELSEWHERE_V6}]:80")] {
            let there: SocketAddr = there.parse().unwrap();
            let connecting = Connecting::to(there);
            let connection = connecting.connection;
            assert_eq!(sockets.state(connection).unwrap(), Some(State::SynSent));
            // The reverse direction of the connection does not exist here.
            let reversed = Connection {
                source: connection.destination,
                destination: connection.source,
            };
            assert_eq!(sockets.state(reversed).unwrap(), None);
            drop(connecting);
            soon(|| sockets.state(connection).unwrap().is_none()).await;
        }
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(server.local_addr().unwrap())
            .await
            .unwrap();
        let connection = Connection {
            source: client.local_addr().unwrap(),
            destination: client.peer_addr().unwrap(),
        };
        assert_eq!(sockets.state(connection).unwrap(), Some(State::Other));
    });
}

#[test]
fn ipv4_connection_of_an_ipv6_socket_is_found_by_its_ipv4_addresses() {
    inside(|netns| async move {
        lead_nowhere();
        let mut sockets = sockets(&netns);
        let mapped = format!("[::ffff:{ELSEWHERE}]:80").parse().unwrap();
        let connecting = Connecting::to(mapped);
        let ipv4 =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let connection = Connection {
            source: ipv4(connecting.connection.source),
            destination: ipv4(mapped),
        };
        assert_eq!(sockets.state(connection).unwrap(), Some(State::SynSent));
    });
}

/// A socket that waits for a reply, which never arrives.
struct Connecting {
    connection: Connection,
    _socket: std::os::fd::OwnedFd,
}

impl Connecting {
    fn to(there: SocketAddr) -> Self {
        use nix::{errno::Errno, sys::socket::*};
        use std::os::fd::AsRawFd;
        let family = match there {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(family, SockType::Stream, flags, None).unwrap();
        let started = connect(socket.as_raw_fd(), &SockaddrStorage::from(there));
        assert_eq!(started, Err(Errno::EINPROGRESS));
        let own: SockaddrStorage = getsockname(socket.as_raw_fd()).unwrap();
        let v4 = own
            .as_sockaddr_in()
            .map(|own| SocketAddr::V4((*own).into()));
        let v6 = || {
            own.as_sockaddr_in6()
                .map(|own| SocketAddr::V6((*own).into()))
        };
        Self {
            connection: Connection {
                source: v4.or_else(v6).unwrap(),
                destination: there,
            },
            _socket: socket,
        }
    }
}
