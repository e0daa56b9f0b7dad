//! The real agent, and pods whose packet filter takes seconds for each packet: all other pods are served as if such a pod
//! did not exist, and the agent can be killed and replaced.
//!
//! The rules of a network namespace run inside each system call that sends a packet there, and no signal ends that call
//! early. So the thread that sends it is lost for that time, and so is its process: a process ends with its last thread.
//!
//! Alone in its binary, one test at a time: a thread that runs such rules takes a processor. The rules are loaded by the
//! test right before they are needed and removed after a bounded time, also if the test fails. The processes of the hostile
//! pods send no packet while the rules exist.
//!
//! Needs root, built programs (`cargo build --workspace --bins`) and the programs `ip`, `nft` and `nsenter`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cli;
mod costly_rules;
mod figures;
mod health;
mod hold;
mod neighbours;
mod quit;

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use serde_json::Value;
use usher_tests::privilege;
use usher_tests::synthetic::{Agent, ApiServer, Node, Pod, PodSpec, usher};

use costly_rules::CostlyRules;
use figures::Figures;
use health::HealthProbe;
use neighbours::Neighbours;

const SIDECAR: &str = "istio-proxy";
const APP: &str = "app";
/// A busy machine may exceed a limit. An agent that waits for a pod exceeds it each time.
const TRIES: usize = 5;
/// From an event in a pod to the agent's reaction to it; the rules need far longer for one packet.
const REACTION: Duration = Duration::from_millis(100);

static ALONE: Mutex<()> = Mutex::new(());

/// Hostile pods, and what makes the agent send packets in their network namespaces.
struct Attack {
    /// The number of pods that attack at the same time.
    pods: usize,
    spec: fn(&str) -> PodSpec,
    /// Waits until the agent is in the state that the attack needs.
    prepare: fn(&Agent, &Pod),
    /// Which packets the costly rules are for, in the syntax of `nft`; empty for all.
    packets: &'static str,
    /// The depth of the rules.
    depth: u32,
    strike: fn(&Node, &Agent, &Pod),
    /// The agent would send packets, so it reports the pod.
    is_reported: bool,
}

/// Runs the attack, and expects that it affects no other pod and not the agent.
fn affects_nothing_else(attack: &Attack) {
    if !privilege::granted_with(&["ip", "nft", "nsenter"]) {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut tries = Vec::new();
    while tries.len() < TRIES {
        let figures = attack.measure();
        if figures.exceeded().is_empty() {
            return;
        }
        tries.push(figures);
    }
    let exceeded: Vec<Vec<String>> = tries.iter().map(Figures::exceeded).collect();
    panic!("each try exceeded a limit: {exceeded:#?}");
}

impl Attack {
    fn measure(&self) -> Figures {
        let node = Node::new();
        let server = ApiServer::start();
        server.annotate(&[("usher.dev/mode", "enforce"), ("usher.dev/hold", "enforce")]);
        let agent = Agent::start_with_api(&node, &server, &[]);
        let before = Neighbours::new(&node, "before");
        let [first, second] = ["first", "second"].map(|wave| self.create(&node, wave));
        let neighbours = Neighbours::new(&node, "neighbour");
        let later = Neighbours::new(&node, "later");
        first
            .iter()
            .chain(&second)
            .for_each(|pod| (self.prepare)(&agent, pod));
        let pods = first.len() + second.len() + 3 * neighbours.count();
        wait_known(&agent, pods);

        let health = HealthProbe::start(agent.probes());
        let before = before.act(&agent);
        let usual_health = health.longest();

        let rules = CostlyRules::load(&first, self.packets, self.depth);
        let health = HealthProbe::start(agent.probes());
        first
            .iter()
            .for_each(|pod| (self.strike)(&node, &agent, pod));
        let during = neighbours.act(&agent);
        let health = health.longest();
        if self.is_reported {
            are_reported(&node, &agent, &server, &first);
        }
        drop(rules);

        let rules = CostlyRules::load(&second, self.packets, self.depth);
        second
            .iter()
            .for_each(|pod| (self.strike)(&node, &agent, pod));
        // It sends packets by then.
        thread::sleep(REACTION);
        let killed = Instant::now();
        agent.signal(Signal::SIGKILL);
        wait_exit(agent.pid());
        let death = killed.elapsed();
        let started = Instant::now();
        let next = agent.start_next(&node, Some(&server));
        let start = started.elapsed();
        wait_known(&next, pods);
        let after = later.act(&next);
        drop(rules);
        Figures {
            before,
            usual_health,
            during,
            health,
            death,
            start,
            after,
        }
    }

    fn create(&self, node: &Node, wave: &str) -> Vec<Pod> {
        let specs: Vec<PodSpec> = (0..self.pods)
            .map(|number| (self.spec)(&format!("{wave}-{number}")))
            .collect();
        node.run_all(&specs)
    }
}

/// The hostile pods are reported by the log, an Event, a metric, and `usher check`.
fn are_reported(node: &Node, agent: &Agent, server: &ApiServer, pods: &[Pod]) {
    for pod in pods {
        let decided = agent.wait_for("quarantined", &pod.name());
        let reason = decided["reason"].as_str().unwrap();
        assert!(reason.contains("packet filter"), "{reason}");
        server.wait_events("an Event", |events| {
            let is_of_pod = |event: &Value| {
                event["reason"] == "PodQuarantined" && event["regarding"]["uid"] == pod.uid()
            };
            events.iter().any(is_of_pod).then_some(())
        });
    }
    let count = u32::try_from(pods.len()).unwrap();
    agent.wait_metric("usher_quarantined_pods", "", |pods| {
        pods + 0.5 > f64::from(count)
    });
    let check = usher::on(node, &["check"]).stdout;
    assert!(check.contains("reason=PodQuarantined"), "{check}");
}

/// Waits until the agent has this number of pods, from the cgroup tree and from the kubelet.
fn wait_known(agent: &Agent, pods: usize) {
    let pods = u32::try_from(pods).unwrap();
    agent.wait_metric("usher_pods", "", |count| count + 0.5 > f64::from(pods));
    agent.wait_metric("usher_decisions_total", "decision=\"waiting\"", |count| {
        count > 0.5
    });
}

/// Waits until every thread of a child has exited. Does not reap it.
fn wait_exit(pid: u32) {
    let child = Id::Pid(Pid::from_raw(pid.cast_signed()));
    waitid(child, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
}
