//! Held connections that their copies release. In these tests the app's own packets, including retransmissions, are
//! dropped.

use std::{io, net::SocketAddr, time::Instant};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};
use usher_core::{
    base::time::Timestamp,
    hold::{
        ruleset::{HeldPort, Wanted},
        syn::{Copies, Held, Syn},
    },
};
use usher_sys::net::{
    inject::Injector,
    netlink::Socket,
    netns::Netns,
    nflog::{GROUP, Log, Packet},
    nft::{delete_elements, delete_table, renew},
    sockdiag::{Sockets, State},
};

use crate::{
    held::{LONG, hold},
    scratch::{ELSEWHERE, ELSEWHERE_V6, inside, lead_nowhere, nft, soon},
};

const MESH: u16 = 15001;
const DATABASE: u16 = 5432;
const MARK: u32 = 7;

/// Rules that redirect connections to port 80 to the mesh, and drop the app's own SYNs.
const RULES: &str = "table inet test {
    chain capture {
        type nat hook output priority -100
        tcp dport 80 redirect to :15001
    }
    chain own {
        type filter hook output priority -80
        meta mark 7 tcp flags & (fin|syn|rst|ack) == syn drop
    }
}";

/// A pod with held connections to the mesh.
struct Pod {
    nft: Socket,
    log: Log,
    sockets: Sockets,
    injector: Injector,
    copies: Copies,
    clock: Instant,
    proxy: TcpListener,
}

impl Pod {
    async fn hold(netns: &Netns) -> Self {
        lead_nowhere();
        nft(RULES);
        let log = Log::bind(netns, GROUP).unwrap();
        Self {
            nft: hold(netns, MESH, LONG, Wanted::default()),
            log,
            sockets: Sockets::open(netns).unwrap(),
            injector: Injector::open(netns).unwrap(),
            copies: Copies::default(),
            clock: Instant::now(),
            proxy: listener(MESH),
        }
    }

    /// Waits for the copies of this number of connections.
    async fn held(&mut self, connections: u64) {
        while self.copies.connections() < connections {
            let keep = keep(&mut self.copies, self.clock);
            self.log.receive(keep).await.unwrap();
        }
        assert_eq!(self.copies.connections(), connections);
    }

    /// Releases all held connections and returns their number.
    fn release(&mut self) -> usize {
        assert!(delete_table(&self.nft).unwrap());
        let keep = keep(&mut self.copies, self.clock);
        self.log.drain(keep).unwrap();
        let all = self.copies.take(usize::MAX);
        let waiting = all.iter().filter(|held| self.inject_if_it_waits(held));
        waiting.count()
    }

    fn waits(&mut self, held: &Held) -> bool {
        let state = self.sockets.state(held.syn.connection()).unwrap();
        state == Some(State::SynSent)
    }

    fn inject_if_it_waits(&mut self, held: &Held) -> bool {
        self.waits(held) && self.inject(held)
    }

    /// Whether the table let the packet pass.
    fn inject(&self, held: &Held) -> bool {
        let age = Timestamp::new(self.clock.elapsed()).since(held.arrived);
        let packet = held.syn.prepared_for_injection(age);
        let destination = held.syn.connection().destination;
        self.injector.send(&packet, destination).unwrap()
    }
}

fn keep(copies: &mut Copies, clock: Instant) -> impl FnMut(Packet<'_>) {
    move |packet| {
        let syn = Syn::parse(packet.payload).unwrap();
        copies.keep(syn, Timestamp::new(clock.elapsed()));
    }
}

fn listener(port: u16) -> TcpListener {
    let socket = TcpSocket::new_v6().unwrap();
    socket.bind(([0_u16; 8], port).into()).unwrap();
    socket.listen(1024).unwrap()
}

/// A socket of the app, whose own SYNs are dropped.
fn socket(there: SocketAddr) -> TcpSocket {
    let socket = match there {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = socket.unwrap();
    setsockopt(&socket, sockopt::Mark, &MARK).unwrap();
    socket
}

fn connect(there: &str) -> JoinHandle<io::Result<TcpStream>> {
    let there = there.parse().unwrap();
    tokio::spawn(socket(there).connect(there))
}

async fn established(
    connects: impl IntoIterator<Item = JoinHandle<io::Result<TcpStream>>>,
) -> Vec<TcpStream> {
    let mut apps = Vec::new();
    for connect in connects {
        apps.push(connect.await.unwrap().unwrap());
    }
    apps
}

/// Sends data in both directions of a connection.
async fn talk(app: &mut TcpStream, proxy: &mut TcpStream) {
    let mut received = [0; 4];
    app.write_all(b"ping").await.unwrap();
    proxy.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"ping");
    proxy.write_all(b"pong").await.unwrap();
    app.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"pong");
}

/// The same for connections that the proxy may accept in another order: each app receives what it sent.
async fn all_talk(mut apps: Vec<TcpStream>, proxy: &TcpListener) {
    for (number, app) in (0_u32..).zip(&mut apps) {
        app.write_all(&number.to_be_bytes()).await.unwrap();
    }
    let mut received = [0; 4];
    for _ in &apps {
        let (mut accepted, _) = proxy.accept().await.unwrap();
        accepted.read_exact(&mut received).await.unwrap();
        accepted.write_all(&received).await.unwrap();
    }
    for (number, app) in (0_u32..).zip(&mut apps) {
        app.read_exact(&mut received).await.unwrap();
        assert_eq!(received, number.to_be_bytes());
    }
}

#[test]
fn all_held_connections_are_released() {
    inside(|netns| async move {
        let mut pod = Pod::hold(&netns).await;
        let there = [format!("{ELSEWHERE}:80"), format!("[{ELSEWHERE_V6}]:80")];
        let apps: Vec<_> = there
            .iter()
            .cycle()
            .take(20)
            .map(|there| connect(there))
            .collect();
        pod.held(20).await;
        assert!(!apps.iter().any(JoinHandle::is_finished));
        assert_eq!(pod.release(), 20);
        let apps = established(apps).await;
        for app in &apps {
            assert_eq!(app.peer_addr().unwrap().port(), 80);
        }
        all_talk(apps, &pod.proxy).await;
    });
}

#[test]
fn sockets_that_share_a_port_are_two_connections() {
    inside(|netns| async move {
        let mut pod = Pod::hold(&netns).await;
        let apps = [ELSEWHERE, "198.51.100.8"].map(|host| {
            let there = format!("{host}:80").parse().unwrap();
            let socket = socket(there);
            socket.set_reuseaddr(true).unwrap();
            socket.bind("0.0.0.0:40000".parse().unwrap()).unwrap();
            tokio::spawn(socket.connect(there))
        });
        pod.held(2).await;
        assert_eq!(pod.release(), 2);
        all_talk(established(apps).await, &pod.proxy).await;
    });
}

#[test]
fn closed_connection_of_the_app_is_not_established() {
    inside(|netns| async move {
        let mut pod = Pod::hold(&netns).await;
        let aborted = connect(&format!("{ELSEWHERE}:80"));
        let waits = connect(&format!("{ELSEWHERE}:80"));
        pod.held(2).await;
        aborted.abort();
        aborted.await.unwrap_err();
        let copies: Vec<_> = pod.copies.iter().cloned().collect();
        soon(|| copies.iter().filter(|held| pod.waits(held)).count() == 1).await;
        // The copy is sent anyway, which is harmless: the app's kernel refuses the reply.
        assert!(delete_table(&pod.nft).unwrap());
        assert!(pod.copies.iter().all(|held| pod.inject(held)));
        let mut app = waits.await.unwrap().unwrap();
        let (mut proxy, from) = pod.proxy.accept().await.unwrap();
        assert_eq!(from.port(), app.local_addr().unwrap().port());
        talk(&mut app, &mut proxy).await;
    });
}

#[test]
fn late_copy_is_harmless() {
    inside(|netns| async move {
        let mut pod = Pod::hold(&netns).await;
        let app = connect(&format!("{ELSEWHERE}:80"));
        pod.held(1).await;
        let copies: Vec<_> = pod.copies.iter().cloned().collect();
        assert_eq!(pod.release(), 1);
        let mut app = app.await.unwrap().unwrap();
        let (mut proxy, _) = pod.proxy.accept().await.unwrap();
        for held in &copies {
            assert!(!pod.inject_if_it_waits(held));
            assert!(pod.inject(held));
        }
        talk(&mut app, &mut proxy).await;
        // The next accepted connection is a different one.
        let port = pod.proxy.local_addr().unwrap().port();
        let next = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (_, from) = pod.proxy.accept().await.unwrap();
        assert_eq!(from.port(), next.local_addr().unwrap().port());
    });
}

#[test]
fn one_sidecar_is_ready_and_another_is_not() {
    inside(|netns| async move {
        let mut pod = Pod::hold(&netns).await;
        let database = HeldPort {
            port: DATABASE,
            timeout: LONG,
        };
        renew(&pod.nft, &[database]).unwrap();
        let _server = listener(DATABASE);
        let to_mesh = connect(&format!("{ELSEWHERE}:80"));
        let to_database = connect(&format!("127.0.0.1:{DATABASE}"));
        pod.held(2).await;
        assert!(delete_elements(&pod.nft, &[MESH]).unwrap());
        let passed = pod.copies.iter().filter(|held| pod.inject(held)).count();
        assert_eq!(passed, 1);
        to_mesh.await.unwrap().unwrap();
        assert!(!to_database.is_finished());
        // Both packets were copied again, and do not count as new connections. A connection that waits for a second
        // repeats its own packet, which is copied as well.
        let mut again = 0;
        pod.log.drain(|_| again += 1).unwrap();
        assert!(again >= 2, "{again}");
        assert_eq!(pod.release(), 1);
        to_database.await.unwrap().unwrap();
    });
}
