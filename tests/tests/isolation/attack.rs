//! An attack on the agent, and the same node without it for comparison.

pub(crate) mod cli;
mod costly_rules;
pub(crate) mod figures;
mod health;
pub(crate) mod hold;
mod neighbours;
pub(crate) mod quit;

use std::time::Instant;

use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use serde_json::Value;
use usher_tests::synthetic::{Agent, ApiServer, Node, Pod, PodSpec, usher};

use costly_rules::CostlyRules;
use figures::{Comparison, Figures};
use health::HealthProbe;
use neighbours::Neighbours;

const SIDECAR: &str = "istio-proxy";
const APP: &str = "app";

/// Hostile pods, and what makes the agent send packets in their network namespaces.
#[derive(Clone, Copy)]
pub(crate) struct Attack {
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

impl Attack {
    /// Measures the node without the attack, then with it.
    pub(crate) fn compare(&self) -> Comparison {
        let none = Self { pods: 0, ..*self };
        Comparison {
            usual: none.measure(),
            attacked: self.measure(),
        }
    }

    fn measure(&self) -> Figures {
        let node = Node::new();
        let server = ApiServer::start();
        server.annotate(&[("usher.dev/mode", "enforce"), ("usher.dev/hold", "enforce")]);
        let agent = Agent::start_with_api(&node, &server, &[]);
        let [first, second] = ["first", "second"].map(|wave| self.create(&node, wave));
        let [neighbours, later] = ["neighbour", "later"].map(|name| Neighbours::new(&node, name));
        first
            .iter()
            .chain(&second)
            .for_each(|pod| (self.prepare)(&agent, pod));
        let pods = first.len() + second.len() + neighbours.count() + later.count();
        wait_known(&agent, pods);

        let rules = CostlyRules::load(&first, self.packets, self.depth);
        let health = HealthProbe::start(agent.probes());
        first
            .iter()
            .for_each(|pod| (self.strike)(&node, &agent, pod));
        let during = neighbours.act(&agent, &health);
        let health = health.longest();
        if self.is_reported {
            are_reported(&node, &agent, &server, &first);
        }
        drop(rules);

        let rules = CostlyRules::load(&second, self.packets, self.depth);
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
        let next_health = HealthProbe::start(next.probes());
        let after = later.act(&next, &next_health);
        let next_health = next_health.longest();
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
