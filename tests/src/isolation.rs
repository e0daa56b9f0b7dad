//! Attacks of pods on the agent, and the same node without them for comparison.
//!
//! The packet filter of a hostile pod takes seconds for each packet. Its rules run inside each system call that sends a
//! packet in its network namespace, and no signal ends that call early. So the thread that sends it is lost for that time,
//! and so is its process: a process ends with its last thread.
//!
//! A thread that runs such rules takes a processor. The rules are loaded right before they are needed and removed after a
//! bounded time, also if the test fails. The processes of the hostile pods send no packet while the rules exist.
//!
//! Needs root and the programs `ip`, `nft` and `nsenter`.

pub mod costly_rules;
pub mod flood;
pub mod health;
mod neighbours;
pub mod quit;

use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::synthetic::{Agent, ApiServer, Node, Pod, PodSpec, usher};
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use serde_json::Value;

use costly_rules::CostlyRules;
use health::HealthProbe;
use neighbours::Neighbours;

pub use neighbours::Served;

pub const SIDECAR: &str = "istio-proxy";
pub const APP: &str = "app";
/// The rules are removed after this time, even if the test fails.
const LIMIT: Duration = Duration::from_secs(10);

/// Hostile pods, and what makes the agent send packets in their network namespaces.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// The number of pods that attack at the same time.
    pub pods: usize,
    pub spec: fn(&str) -> PodSpec,
    /// Waits until the agent is in the state that the attack needs.
    pub prepare: fn(&Agent, &Pod),
    /// Which packets the costly rules are for, in the syntax of `nft`; empty for all.
    pub packets: &'static str,
    /// The depth of the rules.
    pub depth: u32,
    pub strike: fn(&Node, &Agent, &Pod),
    /// The agent would send packets, so it reports the pod.
    pub is_reported: bool,
}

/// What is measured during an attack.
#[derive(Debug)]
pub struct Figures {
    pub during: Served,
    /// The time of each response of `/healthz`.
    pub health: Vec<Duration>,
    /// From SIGKILL to the end of the agent.
    pub death: Duration,
    /// From the start of the next agent until it serves HTTP.
    pub start: Duration,
    /// By the next agent.
    pub after: Served,
    pub next_health: Vec<Duration>,
}

impl Attack {
    /// The same node without the attack.
    #[must_use]
    pub const fn without_pods(&self) -> Self {
        Self { pods: 0, ..*self }
    }

    /// Attacks an agent, kills it during another attack, and starts the next agent.
    ///
    /// # Panics
    ///
    /// If a pod is not served, or an attack is not reported.
    pub fn measure(&self) -> Figures {
        let node = Node::new();
        let server = ApiServer::start();
        server.annotate(&[("usher.dev/mode", "enforce"), ("usher.dev/hold", "enforce")]);
        let agent = Agent::start_with_api(&node, &server, &[]);
        // Pods that start earlier would be observed only.
        for capability in ["quit", "hold"] {
            let labels = format!("capability=\"{capability}\",mode=\"enforce\"");
            agent.wait_metric("usher_mode", &labels, |mode| mode > 0.5);
        }
        let [first, second] = ["first", "second"].map(|wave| self.create(&node, wave));
        let [neighbours, later] = ["neighbour", "later"].map(|name| Neighbours::new(&node, name));
        first
            .iter()
            .chain(&second)
            .for_each(|pod| (self.prepare)(&agent, pod));
        let pods = first.len() + second.len() + neighbours.count() + later.count();
        wait_known(&agent, pods);

        let rules = self.load(&first);
        let health = health_probe(&agent);
        first
            .iter()
            .for_each(|pod| (self.strike)(&node, &agent, pod));
        let during = neighbours.act(&agent, &health);
        let health = health.times();
        if self.is_reported {
            are_reported(&node, &agent, &server, &first);
        }
        drop(rules);

        let rules = self.load(&second);
        for pod in &second {
            (self.strike)(&node, &agent, pod);
        }
        if self.is_reported {
            // The worker process evaluates the rules, or has recognized them.
            for pod in &second {
                agent.wait_for("quarantined", &pod.name());
            }
        }
        let killed = Instant::now();
        agent.signal(Signal::SIGKILL);
        wait_exit(agent.pid());
        let death = killed.elapsed();
        let started = Instant::now();
        let next = agent.start_next(&node, Some(&server));
        let start = started.elapsed();
        wait_known(&next, pods);
        let next_health = health_probe(&next);
        let after = later.act(&next, &next_health);
        let next_health = next_health.times();
        drop(rules);
        Figures {
            during,
            health,
            death,
            start,
            after,
            next_health,
        }
    }

    fn load(&self, pods: &[Pod]) -> CostlyRules {
        let namespaces: Vec<PathBuf> = pods.iter().map(Pod::network_path).collect();
        CostlyRules::load(&namespaces, self.packets, self.depth, LIMIT)
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
    if pods.is_empty() {
        return;
    }
    for pod in pods {
        let decided = agent.wait_for("quarantined", &pod.name());
        let reason = decided["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("packet filter"), "{reason}");
        server.wait_events("an Event", |events| {
            let is_of_pod = |event: &Value| {
                event["reason"] == "PodQuarantined" && event["regarding"]["uid"] == pod.uid()
            };
            events.iter().any(is_of_pod).then_some(())
        });
    }
    let count = u32::try_from(pods.len()).expect("a few pods");
    agent.wait_metric("usher_quarantined_pods", "", |pods| {
        pods + 0.5 > f64::from(count)
    });
    let check = usher::on(node, &["check"]).stdout;
    assert!(check.contains("reason=PodQuarantined"), "{check}");
}

fn health_probe(agent: &Agent) -> HealthProbe {
    let address = agent.probes();
    HealthProbe::start(move || TcpStream::connect(address).expect("the agent accepts connections"))
}

/// Waits until the agent has this number of pods, from the cgroup tree and from the kubelet.
fn wait_known(agent: &Agent, pods: usize) {
    let pods = u32::try_from(pods).expect("a few pods");
    agent.wait_metric("usher_pods", "", |count| count + 0.5 > f64::from(pods));
    agent.wait_metric("usher_decisions_total", "decision=\"waiting\"", |count| {
        count > 0.5
    });
}

/// Waits until every thread of a child has exited. Does not reap it.
fn wait_exit(pid: u32) {
    let child = Id::Pid(Pid::from_raw(pid.cast_signed()));
    waitid(child, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
        .expect("a child that was not waited for");
}
