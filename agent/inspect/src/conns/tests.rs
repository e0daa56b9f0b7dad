//! The sockets of pods with a mesh, and the expected owner and path of each.

mod filter;
mod owner;
mod property;
mod report;

use std::{net::SocketAddr, time::Duration};

use usher_core::{
    base::id::{ContainerId, Pid},
    node::socket::{Process, Protocol, Socket, State, Timer, TimerKind},
};

use crate::conns::*;

const APP: usize = 0;
const MESH: usize = 1;
const POD: &str = "10.1.2.3";

/// A pod with an app and a mesh sidecar, to which sockets are added.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) input: Input,
}

impl Stage {
    pub(super) fn new() -> Self {
        let container = |byte: &str, name: &str, role| Container {
            id: ContainerId::parse(&byte.repeat(32)).unwrap(),
            name: name.to_owned(),
            role,
        };
        let process = |pid, name: &str, container| Process {
            pid: Pid(pid),
            name: name.to_owned(),
            container,
        };
        Self {
            input: Input {
                containers: vec![
                    container("aa", "app", Role::App),
                    container("bb", "istio-proxy", Role::Sidecar),
                    container("cc", "pause", Role::Sandbox),
                ],
                processes: vec![process(100, "server", APP), process(200, "envoy", MESH)],
                cgroups: vec![(1000, APP), (2000, MESH)],
                ..Input::default()
            },
        }
    }

    /// Adds a socket; without an owner no process holds it.
    pub(super) fn socket(
        &mut self,
        owner: Option<usize>,
        state: State,
        local: &str,
        peer: &str,
    ) -> usize {
        let place = self.input.sockets.len();
        let number = u32::try_from(place).unwrap() + 1;
        let inode = if owner.is_some() { number } else { 0 };
        if let Some(process) = owner {
            self.input
                .held
                .push((inode, u32::try_from(process).unwrap()));
        }
        let address = |text: &str| -> SocketAddr { text.replace("pod", POD).parse().unwrap() };
        self.input.sockets.push(Socket {
            protocol: Protocol::Tcp,
            state,
            local: address(local),
            peer: address(peer),
            both_families: local.starts_with('['),
            interface: 0,
            receive_queue: 0,
            send_queue: 0,
            uid: 0,
            inode,
            cookie: number.into(),
            cgroup: 0,
            timer: None,
            retransmits: 0,
            rtt: None,
            all_retransmits: None,
            drops: None,
            received: None,
        });
        place
    }

    fn listener(&mut self, owner: usize, local: &str) -> usize {
        self.socket(Some(owner), State::Listen, local, "0.0.0.0:0")
    }

    fn connection(&mut self, owner: usize, local: &str, peer: &str) -> usize {
        self.socket(Some(owner), State::Established, local, peer)
    }

    /// The listeners of Istio's proxy.
    fn with_mesh() -> Self {
        let mut stage = Self::new();
        for port in ["15001", "15006", "15020", "15021"] {
            stage.listener(MESH, &format!("0.0.0.0:{port}"));
        }
        stage.listener(APP, "[::]:8080");
        stage
    }

    /// The report with this filter.
    pub(super) fn shown(&self, filter: &Filter) -> Conns {
        let conns = Conns {
            sockets: self.input.judge(),
            ..Conns::default()
        };
        conns.filtered(filter)
    }

    pub(super) fn owners(&self) -> Vec<Owner> {
        super::owner::owners(&self.input)
    }

    pub(super) fn via(&self, place: usize) -> Via {
        via::ConnectionIndex::new(&self.input, &self.owners()).via(place)
    }
}

#[test]
fn redirected_connections_are_through_the_mesh() {
    let mut stage = Stage::with_mesh();
    let app = stage.connection(APP, "pod:40000", "10.9.9.9:80");
    let mesh = stage.connection(MESH, "127.0.0.1:15001", "pod:40000");
    let upstream = stage.connection(MESH, "pod:50000", "10.8.8.8:80");
    let expected = Via::Through {
        container: Some(MESH),
        port: 15001,
    };
    assert_eq!(stage.via(app), expected);
    assert_eq!(stage.via(mesh), Via::For(APP));
    assert_eq!(stage.via(upstream), Via::None);
    assert_eq!(stage.via(0), Via::None);
    // The same for a connection that the listener has not accepted yet.
    let waiting = stage.connection(APP, "pod:40001", "10.9.9.9:80");
    stage.socket(None, State::SynReceived, "127.0.0.1:15001", "pod:40001");
    assert_eq!(stage.via(waiting), expected);
    // And for an IPv6 socket with IPv4 ends.
    let mapped = stage.connection(APP, "[::ffff:10.1.2.3]:40002", "[::ffff:10.9.9.9]:80");
    stage.connection(MESH, "127.0.0.1:15001", "pod:40002");
    assert_eq!(stage.via(mapped), expected);
}

#[test]
fn connections_without_a_proxy_are_direct() {
    let mut stage = Stage::with_mesh();
    let out = stage.connection(APP, "pod:40000", "10.9.9.9:80");
    let incoming = stage.connection(APP, "pod:8080", "10.9.9.9:33333");
    // Both ends in app containers, or in one container.
    let client = stage.connection(APP, "127.0.0.1:40001", "127.0.0.1:8080");
    let server = stage.connection(APP, "127.0.0.1:8080", "127.0.0.1:40001");
    // A UDP socket with the same ends is not the other end.
    let datagrams = stage.connection(MESH, "127.0.0.1:15001", "pod:40000");
    stage.input.sockets[datagrams].protocol = Protocol::Udp;
    for place in [out, incoming, client, server] {
        assert_eq!(stage.via(place), Via::Direct, "{place}");
    }
    let unconnected = stage.socket(Some(APP), State::Unconnected, "pod:40002", "0.0.0.0:0");
    assert_eq!(stage.via(unconnected), Via::None);
}

#[test]
fn connections_from_and_to_the_sidecar() {
    let mut stage = Stage::with_mesh();
    let served = stage.connection(APP, "pod:8080", "127.0.0.6:45678");
    let serving = stage.connection(MESH, "127.0.0.6:45678", "pod:8080");
    assert_eq!(stage.via(served), Via::From(Some(MESH)));
    assert_eq!(stage.via(serving), Via::For(APP));
    let client = stage.connection(APP, "127.0.0.1:40000", "127.0.0.1:15020");
    let server = stage.connection(MESH, "127.0.0.1:15020", "127.0.0.1:40000");
    let to = Via::To {
        container: Some(MESH),
        port: 15020,
    };
    assert_eq!(stage.via(client), to);
    assert_eq!(stage.via(server), Via::For(APP));
    // Connections of the proxy with other hosts have no path.
    let scraped = stage.connection(MESH, "pod:15020", "10.0.0.1:5555");
    assert_eq!(stage.via(scraped), Via::None);
}

#[test]
fn proxy_outside_of_the_pod_is_recognized() {
    let mut stage = Stage::new();
    let app = stage.connection(APP, "pod:40000", "10.9.9.9:80");
    let other = stage.connection(APP, "127.0.0.1:15001", "pod:40000");
    let client = stage.connection(APP, "127.0.0.1:40001", "127.0.0.1:9000");
    let server = stage.connection(APP, "127.0.0.1:9000", "127.0.0.1:40001");
    for place in [other, server] {
        stage
            .input
            .held
            .retain(|(inode, _)| *inode as usize != place + 1);
        assert_eq!(stage.owners()[place], Owner::Outside);
    }
    let through = Via::Through {
        container: None,
        port: 15001,
    };
    assert_eq!(stage.via(app), through);
    let to = Via::To {
        container: None,
        port: 9000,
    };
    assert_eq!(stage.via(client), to);
    assert_eq!(stage.via(other), Via::None);
    // A process with unreadable file descriptors may hold the other end.
    stage.input.is_blind = true;
    for place in [app, client, other] {
        assert_eq!(stage.via(place), Via::Unknown(Why::Unseen));
    }
}

#[test]
fn ambiguous_paths_are_unknown() {
    let unknown = |why| Via::Unknown(why);
    let mut stage = Stage::with_mesh();
    let waits = stage.socket(Some(APP), State::SynSent, "pod:40000", "10.9.9.9:80");
    assert_eq!(stage.via(waits), unknown(Why::Unanswered));
    let half = stage.socket(Some(APP), State::CloseWait, "pod:40001", "10.9.9.9:80");
    assert_eq!(stage.via(half), unknown(Why::OtherEndGone));
    let over = stage.socket(None, State::TimeWait, "pod:40002", "10.9.9.9:80");
    assert_eq!(stage.via(over), unknown(Why::Closed));
    let left = stage.socket(Some(APP), State::CloseWait, "pod:40003", "10.9.9.9:80");
    stage.socket(None, State::FinWait2, "127.0.0.1:15001", "pod:40003");
    assert_eq!(stage.via(left), unknown(Why::OtherEndClosed));
    let server = stage.socket(
        Some(APP),
        State::CloseWait,
        "127.0.0.1:40006",
        "127.0.0.1:15020",
    );
    stage.socket(None, State::FinWait2, "127.0.0.1:15020", "127.0.0.1:40006");
    assert_eq!(stage.via(server), unknown(Why::OtherEndClosed));
    let local = stage.connection(APP, "127.0.0.1:40004", "127.0.0.1:9");
    assert_eq!(stage.via(local), unknown(Why::OtherEndGone));
    let direct = stage.connection(APP, "pod:40005", "10.9.9.9:80");
    assert_eq!(stage.via(direct), Via::Direct);
    stage.input.is_partial = true;
    assert_eq!(stage.via(direct), unknown(Why::Partial));
    stage.input.containers[APP].role = Role::Unknown;
    assert_eq!(stage.via(direct), unknown(Why::Roles));
}

#[test]
fn changed_source_ports_make_direct_connections_unknown() {
    let mut stage = Stage::with_mesh();
    let alone = stage.connection(APP, "pod:40000", "10.9.9.9:80");
    // A connection with a closed or local other end is not redirected.
    stage.connection(MESH, "127.0.0.6:45678", "pod:8080");
    stage.connection(APP, "pod:8080", "pod:61001");
    stage.connection(APP, "pod:40002", "pod:15020");
    stage.connection(MESH, "pod:15020", "pod:40002");
    assert_eq!(stage.via(alone), Via::Direct);
    // A redirected connection with another source port, which no app socket has.
    stage.connection(MESH, "127.0.0.1:15001", "pod:61000");
    assert_eq!(stage.via(alone), Via::Unknown(Why::Renumbered));
    // A second connection with the same source port explains it.
    let first = stage.connection(APP, "pod:40001", "10.9.9.1:80");
    let second = stage.connection(APP, "pod:40001", "10.9.9.2:80");
    stage.connection(MESH, "127.0.0.1:15001", "pod:40001");
    for place in [first, second] {
        assert!(matches!(stage.via(place), Via::Through { .. }), "{place}");
    }
    assert_eq!(stage.via(alone), Via::Direct);
}

#[test]
fn owners_are_found_by_process_cgroup_or_listener() {
    let mut stage = Stage::with_mesh();
    let held = stage.connection(APP, "pod:40000", "10.9.9.9:80");
    // Both are known: the process takes precedence over the cgroup.
    stage.input.sockets[held].cgroup = 2000;
    let made = stage.socket(None, State::FinWait1, "pod:40001", "10.9.9.9:80");
    stage.input.sockets[made].cgroup = 2000;
    let accepting = stage.socket(None, State::Established, "pod:8080", "10.9.9.9:4000");
    let closing = stage.socket(None, State::TimeWait, "pod:8080", "10.9.9.9:4001");
    let owners = stage.owners();
    assert_eq!(owners[held], Owner::Process(APP));
    assert_eq!(owners[made], Owner::Container(MESH));
    assert_eq!(owners[accepting], Owner::Container(APP));
    assert_eq!(owners[closing], Owner::None);
}

#[test]
fn datagram_paths() {
    let mut stage = Stage::new();
    let open = stage.listener(MESH, "127.0.0.1:15053");
    let client = stage.connection(APP, "pod:40000", "10.96.0.10:53");
    let to_sidecar = stage.connection(APP, "127.0.0.1:40001", "127.0.0.1:15053");
    let everywhere = stage.listener(MESH, "0.0.0.0:53");
    for socket in &mut stage.input.sockets {
        socket.protocol = Protocol::Udp;
    }
    for place in [open, everywhere] {
        stage.input.sockets[place].state = State::Unconnected;
        assert_eq!(stage.via(place), Via::None);
    }
    // A sidecar on the same port of all addresses is not the destination.
    assert_eq!(stage.via(client), Via::Unknown(Why::Datagrams));
    let to = Via::To {
        container: Some(MESH),
        port: 15053,
    };
    assert_eq!(stage.via(to_sidecar), to);
}

#[test]
fn listing_is_sorted_and_counts_hidden_sockets() {
    let mut stage = Stage::with_mesh();
    stage.connection(MESH, "127.0.0.1:15001", "pod:40000");
    stage.connection(APP, "pod:40000", "10.9.9.9:80");
    stage.socket(None, State::TimeWait, "pod:40001", "10.9.9.9:80");
    stage.socket(Some(APP), State::Unconnected, "0.0.0.0:0", "0.0.0.0:0");
    let listing = stage.shown(&Filter::default());
    let line = |row: &Row| {
        let container = row.container.as_deref().unwrap_or("-");
        let (local, via) = (row.local_text(), row.via_text(false));
        format!(
            "{} {local} {container} {} {via}",
            row.state,
            row.process_text()
        )
    };
    let lines: Vec<String> = listing.sockets.iter().map(line).collect();
    let expected = [
        "LISTEN *:8080 app 100/server -",
        "LISTEN 0.0.0.0:15001 istio-proxy 200/envoy -",
        "LISTEN 0.0.0.0:15006 istio-proxy 200/envoy -",
        "LISTEN 0.0.0.0:15020 istio-proxy 200/envoy -",
        "LISTEN 0.0.0.0:15021 istio-proxy 200/envoy -",
        "ESTAB 10.1.2.3:40000 app 100/server through istio-proxy:15001",
        "ESTAB 127.0.0.1:15001 istio-proxy 200/envoy for app",
    ];
    assert_eq!(lines, expected);
    assert_eq!((listing.over, listing.unbound), (1, 1));
    let all = Filter {
        all: true,
        ..Filter::default()
    };
    let listing = stage.shown(&all);
    assert_eq!(listing.sockets.len(), 9);
    assert_eq!((listing.over, listing.unbound), (0, 0));
}

#[test]
fn listing_round_trips_through_json() {
    let mut stage = Stage::with_mesh();
    let app = stage.connection(APP, "pod:40000", "10.9.9.9:80");
    stage.connection(MESH, "127.0.0.1:15001", "pod:40000");
    stage.socket(Some(APP), State::SynSent, "pod:40009", "10.9.9.9:80");
    let socket = &mut stage.input.sockets[app];
    socket.rtt = Some(Duration::from_micros(312));
    socket.timer = Some(Timer {
        kind: TimerKind::Keepalive,
        left: Duration::from_secs(7),
    });
    let listing = stage.shown(&Filter::default());
    let text = serde_json::to_string(&listing).unwrap();
    let read: Conns = serde_json::from_str(&text).unwrap();
    assert_eq!(read, listing);
    assert!(text.contains(r#""via":{"how":"through","container":"istio-proxy","port":15001}"#));
}

#[test]
fn further_holders_are_counted() {
    let mut stage = Stage::new();
    let place = stage.listener(APP, "0.0.0.0:80");
    let inode = stage.input.sockets[place].inode;
    for pid in 0..40 {
        let process = Process {
            pid: Pid(1000 + pid),
            name: "worker".to_owned(),
            container: APP,
        };
        let number = u32::try_from(stage.input.processes.len()).unwrap();
        stage.input.processes.push(process);
        stage.input.held.push((inode, number));
    }
    let listing = stage.shown(&Filter::default());
    let row = &listing.sockets[0];
    assert_eq!((row.processes.len(), row.more_processes), (16, 25));
    assert_eq!(row.process_text(), "100/server +40");
    assert_eq!(serde_json::to_value(row).unwrap()["moreProcesses"], 25);
}
