//! Clients that open connections to the ports for probes and metrics, and send nothing.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use usher_tests::synthetic::{Agent, PodSpec, clock::eventually};
use usher_tests::wait::patience;

use crate::{enforcing, finish_and_quit};

/// More than the agent serves at the same time.
const MANY: usize = 200;
/// The limit of simultaneous connections to one port.
const MOST: usize = 64;
/// The limit of simultaneous connections of one address to the port for metrics.
const MOST_OF_A_CLIENT: usize = 8;
/// Descriptors that are opened and closed meanwhile.
const OTHERS: usize = 16;

fn connect(address: SocketAddr) -> Vec<TcpStream> {
    let connect = |_| TcpStream::connect(address).unwrap();
    (0..MANY).map(connect).collect()
}

fn expect_closed(streams: Vec<TcpStream>) {
    for mut stream in streams {
        stream.set_read_timeout(Some(patience())).unwrap();
        match stream.read(&mut [0]) {
            Ok(read) => assert_eq!(read, 0),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}

#[test]
fn silent_connections_block_no_other_client() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let before = agent.open_descriptors();
    let silent = connect(agent.probes());
    assert_eq!(agent.get("/healthz"), (200, "ok\n".to_owned()));
    let open = agent.open_descriptors();
    assert!(open <= before + MOST + OTHERS, "{before}, then {open}");
    let pod = node.run(&PodSpec::job("meanwhile"));
    finish_and_quit(&agent, &pod);
    expect_closed(silent);
}

#[test]
fn client_with_many_connections_to_the_metrics_is_refused() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let before = agent.open_descriptors();
    let silent = connect(agent.http());
    assert_eq!(agent.get("/healthz"), (200, "ok\n".to_owned()));
    let open = agent.open_descriptors();
    let most = before + MOST_OF_A_CLIENT + OTHERS;
    assert!(open <= most, "{before}, then {open}");
    expect_closed(silent);
    assert!(agent.metrics().contains("usher_build_info"));
}

/// Connections that a flood keeps open.
const KEPT: usize = 1000;

/// Opens connections to an address as fast as possible, and keeps the newest, until it is stopped.
fn flood(address: SocketAddr, is_stopped: &AtomicBool) {
    let mut kept = VecDeque::new();
    while !is_stopped.load(Ordering::Relaxed) {
        kept.extend(TcpStream::connect(address).ok());
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }
}

/// The kubelet restarts an agent that fails three probes.
#[test]
fn flood_of_the_metrics_delays_no_probe() {
    const LONGEST: Duration = Duration::from_millis(100);
    // What a busy machine adds is in one round and not in the next.
    const ROUNDS: usize = 3;
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let before = agent.open_descriptors();
    let is_stopped = AtomicBool::new(false);
    let rounds: Vec<Duration> = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| flood(agent.http(), &is_stopped));
        }
        let probed = std::panic::catch_unwind(AssertUnwindSafe(|| {
            eventually("the flood", || agent.open_descriptors() > before);
            let rounds = (0..ROUNDS).map(|_| slowest_probe(&agent)).collect();
            finish_and_quit(&agent, &node.run(&PodSpec::job("meanwhile")));
            rounds
        }));
        is_stopped.store(true, Ordering::Relaxed);
        probed.unwrap()
    });
    assert!(
        rounds.iter().any(|slowest| *slowest <= LONGEST),
        "{rounds:?}"
    );
}

/// The time of the slowest of 100 probes. Each has a response; a listener with a full backlog costs a second.
fn slowest_probe(agent: &Agent) -> Duration {
    const PROBES: usize = 100;
    const INTERVAL: Duration = Duration::from_millis(10);
    let probe = |_| {
        std::thread::sleep(INTERVAL);
        let start = Instant::now();
        assert_eq!(agent.get("/healthz"), (200, "ok\n".to_owned()));
        start.elapsed()
    };
    let slowest = (0..PROBES).map(probe).max().unwrap();
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    slowest
}
