//! Connections and DNS queries: which ones are held or pass, and how they are released.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    time::Duration,
};

use nix::{
    sys::socket::AddressFamily,
    unistd::{Gid, Uid, setfsgid, setfsuid},
};
use tokio::net::TcpListener;
use usher_core::hold::ruleset::{HeldPort, Ruleset, Wanted};
use usher_sys::net::{
    netlink::{Protocol, Socket},
    netns::Netns,
    nflog::{GROUP, Log},
    nfqueue::{QUEUE, Queue},
    nft::{delete_elements, delete_table, dump, install, probe},
    tcp,
};

use crate::{
    attempt::Attempt,
    scratch::{ADDRESS, inside, lead_nowhere, skipped},
};

const PORT: u16 = 15001;
/// Longer than any test.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// Number of packets that the table has counted: connection attempts with their retransmissions. 0 without a table.
pub(crate) fn count_held(socket: &Socket) -> u64 {
    dump(socket).unwrap().map_or(0, |found| found.packets)
}

pub(crate) fn hold(netns: &Netns, port: u16, timeout: Duration, more: Wanted) -> Socket {
    let socket = netns.netlink(Protocol::Netfilter).unwrap();
    let wanted = Wanted {
        ports: vec![HeldPort { port, timeout }],
        ..more
    };
    install(&socket, &Ruleset::of(&wanted)).unwrap();
    socket
}

#[test]
fn connections_are_held_until_the_table_is_deleted() {
    inside(|netns| async move {
        let socket = hold(&netns, PORT, LONG, Wanted::default());
        // Without a listener, a connection that is not held is refused.
        let loopback = ["127.0.0.1", "127.1.2.3", "[::1]"];
        let waiting = loopback.map(|host| Attempt::start(host, PORT));
        for host in loopback {
            Attempt::start(host, PORT + 1).refused().await;
        }
        assert!(waiting.iter().all(Attempt::is_waiting));
        assert_eq!(count_held(&socket), 3);
        let _servers = [
            TcpListener::bind(("0.0.0.0", PORT)).await.unwrap(),
            TcpListener::bind(("::1", PORT)).await.unwrap(),
        ];
        assert!(waiting.iter().all(Attempt::is_waiting));
        assert!(delete_table(&socket).unwrap());
        for attempt in waiting {
            attempt.connected().await;
        }
    });
}

#[test]
fn connections_of_usher_pass_and_are_not_copied() {
    inside(|netns| async move {
        for count_only in [false, true] {
            let more = Wanted {
                count_only,
                ..Wanted::default()
            };
            let socket = hold(&netns, PORT, LONG, more);
            let mut log = Log::bind(&netns, GROUP).unwrap();
            for (family, loopback) in [
                (AddressFamily::Inet, IpAddr::from(Ipv4Addr::LOCALHOST)),
                (AddressFamily::Inet6, IpAddr::from(Ipv6Addr::LOCALHOST)),
            ] {
                for port in [PORT, PORT + 1] {
                    let own = tcp::connect(netns.tcp_socket(family).unwrap(), loopback, port);
                    let error = tokio::time::timeout(LONG / 20, own)
                        .await
                        .unwrap()
                        .unwrap_err();
                    assert_eq!(
                        error.kind(),
                        ErrorKind::ConnectionRefused,
                        "{loopback}:{port}"
                    );
                }
            }
            log.drain(|copy| panic!("{copy:?}")).unwrap();
            assert_eq!(dump(&socket).unwrap().unwrap().packets, 0);
        }
    });
}

#[test]
fn one_port_is_released_alone() {
    inside(|netns| async move {
        let other = HeldPort {
            port: PORT + 1,
            timeout: LONG,
        };
        let socket = hold(&netns, PORT, LONG, Wanted::default());
        usher_sys::net::nft::renew(&socket, &[other]).unwrap();
        let waiting = Attempt::start("127.0.0.1", other.port);
        assert!(delete_elements(&socket, &[PORT]).unwrap());
        Attempt::start("127.0.0.1", PORT).refused().await;
        assert!(waiting.is_waiting());
    });
}

#[test]
fn deadline_releases_without_the_agent() {
    inside(|netns| async move {
        // The connection sends its first SYN before, also on a busy machine, and another one seven seconds later.
        let soon = Duration::from_secs(5);
        let socket = hold(&netns, PORT, soon, Wanted::default());
        let waiting = Attempt::start("127.0.0.1", PORT);
        assert_eq!(count_held(&socket), 1);
        waiting.refused().await;
        assert_eq!(dump(&socket).unwrap().unwrap().remaining, []);
    });
}

#[test]
fn same_port_of_another_address_is_not_held() {
    inside(|netns| async move {
        lead_nowhere();
        let socket = hold(&netns, PORT, LONG, Wanted::default());
        Attempt::start(ADDRESS, PORT).refused().await;
        Attempt::start("[2001:db8::1]", PORT).refused().await;
        assert_eq!(count_held(&socket), 0);
    });
}

#[test]
fn users_and_groups_of_the_proxy_pass() {
    inside(|netns| async move {
        let exempt = Wanted {
            exempt_uids: vec![1337],
            exempt_gids: vec![1338],
            ..Wanted::default()
        };
        let _socket = hold(&netns, PORT, LONG, exempt);
        // User and group belong to this thread, which ends with the test.
        let become_ = |user: u32, group: u32| {
            setfsuid(Uid::from_raw(user));
            setfsgid(Gid::from_raw(group));
        };
        for host in ["127.0.0.1", "[::1]"] {
            become_(1337, 1000);
            Attempt::start(host, PORT).refused().await;
            become_(1000, 1338);
            Attempt::start(host, PORT).refused().await;
            become_(1000, 1337);
            assert!(Attempt::start(host, PORT).is_waiting());
        }
    });
}

#[test]
fn observe_mode_counts_and_holds_nothing() {
    inside(|netns| async move {
        let observe = Wanted {
            count_only: true,
            ..Wanted::default()
        };
        let socket = hold(&netns, PORT, LONG, observe);
        for host in ["127.0.0.1", "[::1]"] {
            Attempt::start(host, PORT).refused().await;
        }
        assert_eq!(count_held(&socket), 2);
    });
}

#[test]
fn queries_are_held_where_the_queue_has_a_listener() {
    inside(|netns| async move {
        let Some(queue) = probe().unwrap().queue() else {
            skipped("needs a kernel with NFT_QUEUE or NFT_COMPAT and the target NFQUEUE");
            return;
        };
        let more = Wanted {
            dns: Some(queue),
            ..Wanted::default()
        };
        let socket = hold(&netns, PORT, LONG, more);
        let received = |server: &UdpSocket| server.recv(&mut [0; 8]).ok();
        let [v4, v6] = ["127.0.0.1", "::1"].map(|host| {
            let [client, server, other] = [0, PORT, PORT + 1].map(|port| {
                let socket = UdpSocket::bind((host, port)).unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            });
            client.send_to(b"1", (host, PORT)).unwrap();
            assert_eq!(received(&server), Some(1), "no process serves the queue");
            (host, client, server, other)
        });
        let holder = Queue::bind(&netns, QUEUE).unwrap();
        for (host, client, server, other) in [&v4, &v6] {
            client.send_to(b"22", (*host, PORT)).unwrap();
            client.send_to(b"333", (*host, PORT + 1)).unwrap();
            assert_eq!(received(other), Some(3));
            // The release of another port leaves the query queued.
            holder.repeat_all().unwrap();
            assert_eq!(received(server), None);
        }
        assert!(delete_elements(&socket, &[PORT]).unwrap());
        holder.repeat_all().unwrap();
        for (_host, _client, server, _other) in [&v4, &v6] {
            assert_eq!(received(server), Some(2));
        }
    });
}
