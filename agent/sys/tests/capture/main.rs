//! Copies of packets in a network namespace: the kernel's filter and counters.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs::File,
    net::{TcpListener, TcpStream, UdpSocket},
    ops::ControlFlow,
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sched::{CloneFlags, unshare},
    unistd::Uid,
};
use usher_core::node::packet::Direction;
use usher_inspect::capture::{
    Filter,
    filter::Protocol,
    line::{End, Summary},
};
use usher_sys::net::{
    netns::Netns,
    packet::{LONGEST, SMALLEST_ROOM, Tap, WakeReason},
};
use usher_tests::topology;

/// Size of the ring. The kernel closes a block with few packets after a timeout, and the test does not read before
/// that, so it needs several blocks.
const ROOM: usize = 16 * SMALLEST_ROOM;

/// Runs a test on a thread in a new namespace with loopback.
#[expect(
    clippy::print_stderr,
    reason = "libtest has no skipped state; this line is how a person learns of it"
)]
fn inside(test: impl FnOnce(Netns) + Send) {
    if !Uid::effective().is_root() {
        let pipeline = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!pipeline, "cannot run here: needs root");
        eprintln!("SKIPPED: needs root (network namespaces)");
        return;
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            topology::loopback_up().unwrap();
            let netns = File::open("/proc/thread-self/ns/net").unwrap();
            test(Netns::from_fd(netns.into()).unwrap());
        });
    });
}

/// Reads all accepted packets. Returns the number of packets for each summary.
fn drain(tap: &mut Tap) -> BTreeMap<String, u64> {
    tap.close().unwrap();
    let counted = tap.statistics().unwrap();
    let mut counts = BTreeMap::new();
    let (stop, _open) = std::io::pipe().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while counts.values().sum::<u64>() < counted.accepted - counted.dropped {
        assert!(Instant::now() < end, "{counts:?}");
        let limit = Duration::from_secs(1);
        assert_eq!(
            tap.wait(stop.as_fd(), None, limit).unwrap(),
            WakeReason::Packets
        );
        while tap.read(|packet| {
            assert!(packet.length as usize >= packet.bytes.len());
            let summary = match Summary::of(&packet) {
                Summary {
                    ends: Some((_, End::Port(to))),
                    protocol,
                    ..
                } => {
                    format!("{:?} {}", protocol, to.port())
                }
                other => format!("{other:?}"),
            };
            let kind = summary.split(' ').next().unwrap().to_owned();
            let port = summary.rsplit(' ').next().unwrap();
            *counts.entry(format!("{kind} {port}")).or_default() += 1;
            ControlFlow::Continue(())
        }) {}
    }
    counts
}

#[test]
fn every_datagram_is_read_or_counted_as_dropped() {
    inside(|netns| {
        let filter = Filter {
            protocols: vec![Protocol::Udp],
            ..Filter::default()
        };
        let mut tap = Tap::open(&netns, &filter.program(LONGEST), SMALLEST_ROOM).unwrap();
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        const SENT: u64 = 20_000;
        for _ in 0..SENT {
            from.send_to(&[7; 100], to.local_addr().unwrap()).unwrap();
        }
        let counted = tap.statistics().unwrap();
        assert_eq!(counted.accepted, SENT);
        // The packets exceed one block, and this thread does not read.
        assert!(counted.dropped > 0, "{counted:?}");
        let counts = drain(&mut tap).values().sum::<u64>();
        assert_eq!(counts, SENT - counted.dropped);
        assert_eq!(tap.statistics().unwrap(), counted);
        // Sent after the tap is closed.
        from.send_to(&[7; 100], to.local_addr().unwrap()).unwrap();
        assert_eq!(tap.statistics().unwrap(), counted);
    });
}

#[test]
fn kernel_runs_the_filter() {
    inside(|netns| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("[::1]:0").unwrap();
        let (tcp, other) = (listener.local_addr().unwrap(), udp.local_addr().unwrap());
        let open = |filter: &Filter| Tap::open(&netns, &filter.program(128), ROOM).unwrap();
        let loopback = Tap::interfaces(&netns).unwrap();
        let names: Vec<_> = loopback
            .iter()
            .map(|one| (&one.name[..], one.hardware))
            .collect();
        assert_eq!(names, [("lo", 772)]);
        let of = |filter: Filter| open(&filter);
        let mut all = of(Filter::default());
        let mut port = of(Filter {
            ports: vec![tcp.port(), 9],
            hosts: vec!["127.0.0.0/8".parse().unwrap()],
            // On loopback, packets have no direction.
            direction: Some(Direction::Out),
            ..Filter::default()
        });
        let mut host = of(Filter {
            hosts: vec!["::1".parse().unwrap()],
            interfaces: vec![loopback[0].index],
            ..Filter::default()
        });
        let mut none = of(Filter {
            interfaces: vec![loopback[0].index + 1],
            ..Filter::default()
        });
        drop(TcpStream::connect(tcp).unwrap());
        udp.send_to(b"hello", other).unwrap();
        assert_eq!(none.statistics().unwrap().accepted, 0);
        assert_eq!(all.name(loopback[0].index).as_deref(), Some("lo"));
        let [all, port, host] = [&mut all, &mut port, &mut host].map(drain);
        let datagrams =
            |counts: &BTreeMap<String, u64>| counts.get(&format!("Udp {}", other.port())).copied();
        let segments =
            |counts: &BTreeMap<String, u64>| counts.get(&format!("Tcp {}", tcp.port())).copied();
        assert_eq!(datagrams(&all), Some(1));
        assert_eq!((datagrams(&port), segments(&port)), (None, segments(&all)));
        assert!(segments(&all) >= Some(3), "{all:?}");
        assert_eq!(host.len(), 1);
        assert_eq!(datagrams(&host), Some(1));
    });
}

#[test]
fn stop_and_closed_reader_end_a_wait() {
    inside(|netns| {
        let program = Filter::default().program(LONGEST);
        let tap = Tap::open(&netns, &program, SMALLEST_ROOM).unwrap();
        let (stop, stopper) = std::io::pipe().unwrap();
        let (reader, written) = std::io::pipe().unwrap();
        let wait = |limit| {
            tap.wait(stop.as_fd(), Some(written.as_fd()), limit)
                .unwrap()
        };
        assert_eq!(wait(Duration::ZERO), WakeReason::Packets);
        drop(reader);
        let long = Duration::from_secs(60);
        assert_eq!(wait(long), WakeReason::ReaderClosed);
        drop(stopper);
        assert_eq!(wait(long), WakeReason::Stopped);
    });
}
