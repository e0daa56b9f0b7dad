//! Clients that open connections to the ports for probes and metrics, and send nothing.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use usher_tests::isolation::flood::Flood;
use usher_tests::synthetic::{Agent, PodSpec};
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

/// The kubelet restarts an agent that fails three probes.
#[test]
fn flood_of_the_metrics_delays_no_probe() {
    /// A listener with a full backlog costs a second.
    const LONGEST: Duration = Duration::from_millis(900);
    // The noise of a busy machine affects one round and not the next.
    const ROUNDS: usize = 5;
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let flood = Flood::default();
    let rounds: Vec<Duration> = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| flood.run(|| TcpStream::connect(agent.http()).ok()));
        }
        let probed = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let mut rounds: Vec<Duration> = Vec::new();
            while rounds.len() < ROUNDS && rounds.last().is_none_or(|slowest| *slowest > LONGEST) {
                rounds.push(slowest_probe(&agent, &flood));
            }
            finish_and_quit(&agent, &node.run(&PodSpec::job("meanwhile")));
            rounds
        }));
        flood.stop();
        probed.unwrap()
    });
    assert!(
        rounds.iter().any(|slowest| *slowest <= LONGEST),
        "{rounds:?}"
    );
}

/// The time of the slowest of 100 probes. Each has a response.
fn slowest_probe(agent: &Agent, flood: &Flood) -> Duration {
    const PROBES: usize = 100;
    let probe = |_| {
        flood.wait();
        let start = Instant::now();
        assert_eq!(agent.get("/healthz"), (200, "ok\n".to_owned()));
        start.elapsed()
    };
    (0..PROBES).map(probe).max().unwrap()
}
