use std::{net::SocketAddr, time::Duration};

use super::*;
use crate::node::socket::Protocol;

const ROOM: usize = 8;
const CLIENT: &str = "10.1.0.9:40000";
const NODE: &str = "10.0.0.1";

fn socket(cookie: u64, local: &str, peer: &str, received: u64) -> Socket {
    Socket {
        protocol: Protocol::Tcp,
        state: State::Established,
        local: local.parse().unwrap(),
        peer: peer.parse().unwrap(),
        both_families: false,
        interface: 0,
        receive_queue: 0,
        send_queue: 0,
        uid: 0,
        inode: 1,
        cookie,
        cgroup: 0,
        timer: None,
        retransmits: 0,
        rtt: Some(Duration::from_millis(1)),
        all_retransmits: None,
        drops: None,
        received: Some(received),
    }
}

/// A connection to port 8080 of the pod.
fn inbound(cookie: u64, peer: &str, received: u64) -> Socket {
    socket(cookie, "10.0.0.7:8080", peer, received)
}

fn closing(mut socket: Socket) -> Socket {
    socket.state = State::CloseWait;
    socket
}

/// As the kernel reports the end of a socket.
fn ended(mut socket: Socket) -> Socket {
    socket.state = State::Unconnected;
    socket
}

/// A pod that listens at port 8080, and has these connections already.
struct Pod(Meter);

impl Pod {
    fn with(open: &[Socket]) -> Self {
        let mut pod = Self(Meter::new(vec![NODE.parse().unwrap()]));
        let first = pod.sample(&[], open);
        let expected = Sample {
            is_first: true,
            listens: true,
            ..Sample::default()
        };
        assert_eq!(first, expected);
        pod
    }

    fn sample(&mut self, ended: &[Socket], open: &[Socket]) -> Sample {
        let none: SocketAddr = "0.0.0.0:0".parse().unwrap();
        self.0.begin(&[15020]);
        for port in [8080, 15006, 15020] {
            let at = format!("0.0.0.0:{port}");
            let mut listener = socket(port, &at, "0.0.0.0:0", 0);
            (listener.state, listener.peer) = (State::Listen, none);
            self.0.add_listener(&listener);
        }
        ended.iter().for_each(|socket| self.0.add_ended(socket));
        for socket in open {
            let has_room = self.0.known() < ROOM;
            self.0.add_open(socket, || has_room);
        }
        self.0.end(false)
    }

    /// New connections, bytes, and new connections from the node.
    fn counts(&mut self, ended: &[Socket], open: &[Socket]) -> (u64, u64, u64) {
        let sample = self.sample(ended, open);
        assert!(sample.listens && !sample.is_first);
        (sample.connections, sample.bytes, sample.from_node)
    }
}

#[test]
fn connections_that_were_open_before_count_by_their_bytes() {
    let mut pod = Pod::with(&[inbound(1, CLIENT, 500)]);
    assert_eq!(pod.counts(&[], &[inbound(1, CLIENT, 500)]), (0, 0, 0));
    assert_eq!(pod.counts(&[], &[inbound(1, CLIENT, 507)]), (0, 7, 0));
    assert_eq!(pod.counts(&[], &[inbound(1, CLIENT, 507)]), (0, 0, 0));
    // The client closes it, and then the app does.
    assert_eq!(
        pod.counts(&[], &[closing(inbound(1, CLIENT, 508))]),
        (0, 0, 0)
    );
    assert_eq!(
        pod.counts(&[ended(inbound(1, CLIENT, 508))], &[]),
        (0, 0, 0)
    );
}

#[test]
fn last_request_before_the_end_counts() {
    let mut pod = Pod::with(&[inbound(1, CLIENT, 500)]);
    assert_eq!(
        pod.counts(&[ended(inbound(1, CLIENT, 541))], &[]),
        (0, 40, 0)
    );
}

/// A connection that was opened and closed between two samples.
#[test]
fn brief_connection_counts() {
    let mut pod = Pod::with(&[]);
    assert_eq!(
        pod.counts(&[ended(inbound(1, CLIENT, 100))], &[]),
        (1, 0, 0)
    );
    assert_eq!(pod.counts(&[], &[inbound(2, CLIENT, 0)]), (1, 0, 0));
}

/// The socket is gone from the list before its end is reported.
#[test]
fn late_notification_of_an_end_is_no_new_connection() {
    let mut pod = Pod::with(&[inbound(1, CLIENT, 500)]);
    assert_eq!(pod.counts(&[], &[]), (0, 0, 0));
    assert_eq!(
        pod.counts(&[ended(inbound(1, CLIENT, 501))], &[]),
        (0, 0, 0)
    );
    assert_eq!(pod.0.known(), 0);
}

#[test]
fn only_clients_count() {
    let mut pod = Pod::with(&[]);
    for (local, peer, is_client) in [
        ("10.0.0.7:8080", CLIENT, true),
        // A mesh redirects connections of clients to its proxy.
        ("10.0.0.7:15006", CLIENT, true),
        ("[::ffff:10.0.0.7]:8080", "[::ffff:10.1.0.9]:40000", true),
        ("[fd00::7]:8080", "[fd00::9]:40000", true),
        // From the proxy to the app.
        ("127.0.0.1:8080", "127.0.0.6:40000", false),
        ("10.0.0.7:8080", "127.0.0.6:40000", false),
        ("[::ffff:127.0.0.1]:8080", "[::ffff:127.0.0.1]:40000", false),
        ("10.0.0.7:8080", "10.0.0.7:40000", false),
        // The app calls others, also through a proxy to which its connections are redirected.
        ("10.0.0.7:40000", "10.1.0.9:8080", false),
        ("127.0.0.1:15006", "10.0.0.7:40000", false),
        ("[::1]:15006", "[fd00::7]:40000", false),
        // A status port of the proxy.
        ("10.0.0.7:15020", CLIENT, false),
    ] {
        let open = [socket(1, local, peer, 100)];
        let counts = (u64::from(is_client), 0, 0);
        assert_eq!(pod.counts(&[], &open), counts, "{local} {peer}");
        pod.counts(&[ended(socket(1, local, peer, 101))], &[]);
    }
}

#[test]
fn probe_differs_from_a_client_on_the_node() {
    let mut pod = Pod::with(&[]);
    for address in ["10.0.0.1:40000", "169.254.7.127:40000", "[fe80::1]:40000"] {
        let probe = inbound(1, address, 100);
        assert_eq!(pod.counts(&[ended(probe.clone())], &[]), (0, 0, 1));
        // A slow probe.
        assert_eq!(pod.counts(&[], std::slice::from_ref(&probe)), (0, 0, 1));
        assert_eq!(
            pod.counts(&[ended(inbound(1, address, 101))], &[]),
            (0, 0, 0)
        );
        // A connection that is kept for more requests is a client's.
        assert_eq!(pod.counts(&[], &[probe]), (0, 0, 1));
        assert_eq!(pod.counts(&[], &[inbound(1, address, 200)]), (0, 100, 0));
        pod.counts(&[ended(inbound(1, address, 201))], &[]);
    }
}

#[test]
fn loopback_listener_is_none() {
    let mut meter = Meter::new(Vec::new());
    meter.begin(&[]);
    meter.add_listener(&socket(1, "127.0.0.1:8080", "0.0.0.0:0", 0));
    assert!(!meter.end(false).listens);
    meter.begin(&[]);
    meter.add_listener(&socket(1, "[::]:8080", "[::]:0", 0));
    assert!(meter.end(false).listens);
}

/// Memory is bounded: a connection beyond the limit counts in each sample.
#[test]
fn pod_with_more_connections_than_room_is_busy() {
    let open: Vec<Socket> = (0..ROOM as u64 + 2)
        .map(|cookie| inbound(cookie, CLIENT, 1))
        .collect();
    let mut pod = Pod::with(&open);
    assert_eq!(pod.counts(&[], &open), (2, 0, 0));
    assert_eq!(pod.0.known(), ROOM);
    // A connection that is kept reserves no room again.
    pod.0.begin(&[]);
    pod.0.add_open(&open[0], || panic!("it is known"));
    // Neither does one that is not of a client.
    let internal = inbound(99, "127.0.0.6:40000", 1);
    pod.0.add_open(&internal, || panic!("it is internal"));
}

#[test]
fn lost_notifications_are_traffic() {
    let mut pod = Pod::with(&[]);
    pod.0.begin(&[]);
    assert_eq!(pod.0.end(true).connections, 1);
}

fn in_cgroup(mut socket: Socket, cgroup: u64) -> Socket {
    socket.cgroup = cgroup;
    socket
}

/// Open connections between the containers of a pod, each with two sockets there.
#[test]
fn connections_between_containers_count_once() {
    let own = "10.0.0.7:41000";
    // The app has the original destination, and the proxy the address of the app.
    let redirected = |app, proxy| {
        vec![
            in_cgroup(socket(1, own, "10.2.0.1:80", 0), app),
            in_cgroup(socket(2, "127.0.0.1:15006", own, 0), proxy),
            // The connection of the proxy to the service.
            in_cgroup(socket(3, "10.0.0.7:41001", "10.1.0.4:8080", 0), proxy),
        ]
    };
    let direct = |app, proxy| {
        vec![
            in_cgroup(socket(1, "127.0.0.1:8080", "127.0.0.1:41000", 0), app),
            in_cgroup(socket(2, "127.0.0.1:41000", "127.0.0.1:8080", 0), proxy),
        ]
    };
    let clients = vec![
        in_cgroup(inbound(1, CLIENT, 0), 7),
        in_cgroup(inbound(2, "10.0.0.1:41000", 0), 7),
    ];
    let closed = direct(7, 8).into_iter().map(closing).collect();
    for (open, expected) in [
        (redirected(7, 8), 1),
        (direct(7, 8), 1),
        ([redirected(7, 8), direct(7, 8)].concat(), 2),
        // Within one container.
        (direct(7, 7), 0),
        // The kernel does not report cgroups, or has them in version 1.
        (direct(0, 0), 1),
        (direct(1, 1), 1),
        (clients, 0),
        (closed, 0),
    ] {
        let mut pod = Pod::with(&[]);
        let sample = pod.sample(&[], &open);
        assert_eq!(sample.internal, expected, "{open:#?}");
    }
}
