//! Apps with a pre-stop time of `auto`: their stop signal waits while clients send.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use usher_tests::privilege;
use usher_tests::synthetic::runtime::{Command, StateDir};
use usher_tests::synthetic::wire::Holding;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec, clock, machine};

use crate::network::{PORT, Sender, Traffic};
use crate::pre_stop::armed;
use crate::{APP, lingering, reason};

const LEAST: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(2);
/// A machine that runs the client too late makes it silent: such a try does not count.
const TRIES: usize = 3;

/// An app that responds to requests, and closes each connection.
pub(crate) fn server() -> ContainerSpec {
    ContainerSpec::server(APP, PORT)
}

/// An app with these sockets, which keeps its connections.
fn holding(sockets: Holding) -> ContainerSpec {
    ContainerSpec::holding(APP, sockets)
}

/// A pod with the app alone, an agent that has armed it, and traffic from before the deletion.
struct Deleted {
    agent: Agent,
    pod: Pod,
    sender: Option<Sender>,
    kill: Command,
    held: Instant,
    _node: Node,
}

impl Deleted {
    fn new(app: ContainerSpec, traffic: impl FnOnce(&Pod) -> Option<Sender>) -> Option<Self> {
        let (node, state) = lingering()?;
        let spec = PodSpec::new("auto")
            .with(app)
            .annotation("usher.dev/pre-stop", "auto");
        Some(Self::begin(node, &state, &spec, traffic))
    }

    fn begin(
        node: Node,
        state: &StateDir,
        spec: &PodSpec,
        traffic: impl FnOnce(&Pod) -> Option<Sender>,
    ) -> Self {
        let pod = node.run(spec);
        state.add(&pod, APP);
        let agent = Agent::start_with(&node, &[state.flag()]);
        armed(&agent, &pod.id(APP));
        let sender = traffic(&pod);
        pod.mark_deleted();
        let kill = state.kill(&pod, APP, "15");
        reason(&agent, "pre-stop-held", &pod);
        Self {
            agent,
            pod,
            sender,
            kill,
            held: Instant::now(),
            _node: node,
        }
    }

    /// Waits until the signal has been held for this time while the client sends. A slow machine might reach the ceiling before a
    /// number of requests.
    fn wait_while_sent(&self, time: Duration) {
        clock::eventually("traffic", || self.held.elapsed() >= time);
        self.wait_sent(1);
    }

    /// Waits until so much more was sent.
    fn wait_sent(&self, more: u64) {
        let sender = self.sender.as_ref().unwrap();
        let enough = sender.sent() + more;
        clock::eventually("traffic", || sender.sent() >= enough);
    }

    fn released(self) -> String {
        self.kill.succeeds();
        let why = reason(&self.agent, "pre-stop-released", &self.pod);
        drop(self.sender);
        why
    }
}

/// New connections, each of them closed before the next sample.
#[test]
fn signal_waits_while_clients_connect() {
    let client = |pod: &Pod| Some(Sender::client(pod, Traffic::Requests));
    for _ in 0..TRIES {
        let Some(mut deleted) = Deleted::new(server(), client) else {
            return;
        };
        deleted.wait_while_sent(LEAST + SILENCE + Duration::from_secs(1));
        let has_ended = deleted.kill.has_ended();
        let sender = deleted.sender.take().unwrap();
        if has_ended && is_silent(sender.pauses().longest()) {
            continue;
        }
        assert!(!has_ended);
        let last_sent = sender.stop();
        let why = deleted.released();
        assert!(last_sent.elapsed() >= SILENCE);
        assert!(why.starts_with("clients have sent nothing for 2s"), "{why}");
        return;
    }
    panic!("the client was silent in each try");
}

/// Whether a pause of the client may be the silence that the agent waits for, between two of its samples.
fn is_silent(pause: Duration) -> bool {
    pause > SILENCE / 2
}

/// The ceiling is the grace period of 30 s less the reserve.
#[test]
fn steady_traffic_keeps_the_signal_until_the_ceiling() {
    let client = |pod: &Pod| Some(Sender::client(pod, Traffic::Bytes));
    for _ in 0..TRIES {
        let app = holding(Holding::default().listening("0.0.0.0:8080"));
        let Some(deleted) = Deleted::new(app, client) else {
            return;
        };
        let pauses = deleted.sender.as_ref().unwrap().pauses();
        let why = deleted.released();
        if why.starts_with("clients have sent nothing for 2s") && is_silent(pauses.longest()) {
            continue;
        }
        assert!(
            why.starts_with("the rest of the pod's grace period is for the app"),
            "{why}"
        );
        return;
    }
    panic!("the client was silent in each try");
}

#[test]
fn probes_do_not_keep_the_signal() {
    let test = "auto::probes_do_not_keep_the_signal";
    if !privilege::granted() || !machine::entered(test) {
        return;
    }
    let Some(deleted) = Deleted::new(server(), |pod| Some(Sender::prober(pod))) else {
        return;
    };
    deleted.wait_sent(1);
    let why = deleted.released();
    assert!(why.starts_with("clients have sent nothing for 2s"), "{why}");
}

/// UDP is not measured.
#[test]
fn floor_is_all_for_an_app_without_a_tcp_port() {
    let app = holding(Holding::default().datagram("0.0.0.0:8080", None));
    let Some(deleted) = Deleted::new(app, |_pod| None) else {
        return;
    };
    let why = deleted.released();
    assert!(why.starts_with("its least time of 5s has passed"), "{why}");
    assert!(why.contains("no TCP port"), "{why}");
}

#[test]
fn floor_is_all_while_the_worker_hangs() {
    let client = |pod: &Pod| Some(Sender::client(pod, Traffic::Requests));
    let Some(deleted) = Deleted::new(server(), client) else {
        return;
    };
    deleted.agent.signal_worker(Signal::SIGSTOP);
    let why = deleted.released();
    assert!(why.starts_with("its least time of 5s has passed"), "{why}");
    assert!(why.contains("could not be read"), "{why}");
}

/// The worker samples the traffic at that time.
#[test]
fn agent_killed() {
    let client = |pod: &Pod| Some(Sender::client(pod, Traffic::Requests));
    let Some(deleted) = Deleted::new(server(), client) else {
        return;
    };
    deleted.wait_while_sent(Duration::from_secs(3));
    deleted.agent.kill();
    deleted.kill.succeeds();
}
