//! A pod whose packet filter takes seconds for each packet, as a pod with NET_ADMIN can load it.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use usher_cluster::workload::{app_container, pod};
use usher_tests::{
    isolation::{
        costly_rules::{CostlyRules, DEEP},
        health::HealthProbe,
    },
    wait::slower,
};

use super::{
    held_job,
    node_network::{NodeNetwork, PROBES},
};
use crate::{
    lab::{self, Lab, until},
    load,
};

const PORT: u16 = 15020;
/// The rules are removed after this time, even if the test fails. The kubelet restarts a killed agent after up to a
/// minute.
const LIMIT: Duration = Duration::from_secs(150);
/// The responses of `/healthz` in each part of the test.
const RESPONSES: usize = 20;
/// Less than a handshake takes with the rules.
const LEAST: Duration = Duration::from_secs(3);
/// A limit is this many times the time without an attack, before or after it, if that is more.
const NOISE: u32 = 4;

/// The limit of a measured time, from the time without an attack on the same machine.
pub(super) fn limit(usual: Duration, least: Duration) -> Duration {
    slower(least).max(usual * NOISE)
}

/// The app of the hostile pod ends, and the agent has to request its sidecar to quit. Meanwhile another pod is quit,
/// another one is created and held, probes have responses, and the agent can be killed. The same holds for the next
/// agent.
#[test]
fn costly_packet_filter_affects_no_other_pod() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let namespace = lab.namespace("costly-rules");
    let [usual, settled, last, during, after, spare, first, second] = [
        "usual",
        "settled",
        "last",
        "during",
        "after",
        "spare",
        "hostile-1",
        "hostile-2",
    ]
    .map(|name| Created::new(&lab, &namespace, name));
    load::pods_are(&lab, &namespace, "Running", 8);
    let [usual, settled, last, during, after, spare, first, second] =
        [usual, settled, last, during, after, spare, first, second].map(Created::observed);

    let without_attack = |pod: Processes<'_>| {
        while_probed(&lab, || {
            held_job(&lab, &lab.namespace("costly-rules-usual"));
            pod.ends_after("-TERM", pod.app, pod.side)
        })
    };
    let before = without_attack(usual);
    let usual_death = spare.ends_after("-KILL", spare.app, spare.app);

    let first_rules = first.load_rules();
    kill(&lab, "-TERM", first.app);
    until_quarantined(&lab, &namespace, 1);
    let (health, quit) = while_probed(&lab, || {
        held_job(&lab, &lab.namespace("costly-rules-held"));
        during.ends_after("-TERM", during.app, during.side)
    });
    drop(first_rules);

    let rules = second.load_rules();
    kill(&lab, "-TERM", second.app);
    until_quarantined(&lab, &namespace, 2);
    let agent: u32 = lab.agent_pids()[0].parse().unwrap();
    let death = second.ends_after("-KILL", agent, agent);
    let network = NodeNetwork::of(&lab);
    until("the next agent", || {
        (!lab.agent_pids().is_empty() && network.probe("/readyz") == Some(200)).then_some(())
    });
    let (next_health, next_quit) = while_probed(&lab, || {
        held_job(&lab, &lab.namespace("costly-rules-next"));
        after.ends_after("-TERM", after.app, after.side)
    });
    drop(rules);
    // Does not count: an agent that the attack still delays would raise the limits.
    without_attack(settled);
    // A busy minute of the machine may begin after the first comparison.
    let usual = without_attack(last);
    let (usual_health, usual_quit) = (before.0.max(usual.0), before.1.max(usual.1));

    let times = [
        ("quit of another pod", quit, usual_quit),
        ("quit by the next agent", next_quit, usual_quit),
        ("response of /healthz", health, usual_health),
        ("response of the next agent", next_health, usual_health),
        ("end after SIGKILL", death, usual_death),
    ];
    eprintln!("with the attack, without it: {times:?}");
    for (what, attacked, usual) in times {
        let limit = limit(usual, LEAST);
        assert!(attacked <= limit, "{what}: {attacked:?}, limit {limit:?}");
    }
    let delete = ["-n", &*namespace, "delete", "pods", "--all", "--wait=false"];
    lab.cluster.kubectl(&delete).unwrap();
}

/// Probes the agent during an action. Returns the slowest response, and the result of the action.
fn while_probed<T>(lab: &Lab, act: impl FnOnce() -> T) -> (Duration, T) {
    let network = NodeNetwork::of(lab);
    let health = HealthProbe::start(move || network.connect(PROBES).unwrap());
    let result = act();
    health.wait(RESPONSES);
    (health.times().into_iter().max().unwrap(), result)
}

fn until_quarantined(lab: &Lab, namespace: &str, pods: usize) {
    until("the quarantine", || {
        (lab.count(namespace, "quarantined") >= pods).then_some(())
    });
}

fn kill(lab: &Lab, signal: &str, pid: u32) {
    lab.cluster
        .in_node(&["kill", signal, &pid.to_string()])
        .unwrap();
}

/// A pod with an app that ends on SIGTERM, and a sidecar that ends on a request.
struct Created<'lab> {
    lab: &'lab Lab,
    /// The run times of its processes. They are unique, so that `pgrep` finds each process.
    lasts: [String; 2],
}

impl<'lab> Created<'lab> {
    fn new(lab: &'lab Lab, namespace: &str, name: &str) -> Self {
        static PODS: AtomicU32 = AtomicU32::new(0);
        // Differs from that of an earlier run, which may have failed.
        let number = std::process::id() % 9_000 * 10 + PODS.fetch_add(1, Ordering::Relaxed);
        let lasts = [7_200_000, 7_300_000].map(|ms| format!("{}ms", ms + number));
        let mut app = app_container("app", &["--run-for", &lasts[0], "--term-code", "0"]);
        app["securityContext"] = json!({ "capabilities": { "add": ["NET_ADMIN"] } });
        let mut side = app_container("side", &["--run-for", &lasts[1]]);
        // A hostile sidecar runs on after the signals that follow the request, and keeps its network namespace.
        let takes = if name.starts_with("hostile") {
            "600s"
        } else {
            "0s"
        };
        side["env"] =
            json!([{ "name": "STAND_IN", "value": format!("quit={PORT} takes={takes}") }]);
        let mut object: Value = pod(name, namespace, "Never", &[app, side]);
        object["metadata"]["annotations"] =
            json!({ "usher.dev/sidecars": format!("side=POST :{PORT}/quitquitquit") });
        lab.cluster.apply(&object).unwrap();
        Self { lab, lasts }
    }

    /// Its processes, in the node.
    fn observed(self) -> Processes<'lab> {
        let root = self.lab.cluster.node_root().expect("the node is up");
        let pid = |lasts: &String| {
            until("a process", || {
                let find = [
                    "pgrep",
                    "-f",
                    &format!("^/usher-test-app --run-for {lasts}"),
                ];
                let found = self.lab.cluster.in_node(&find).ok()?;
                found.trim().parse::<u32>().ok()
            })
        };
        let [app, side] = self.lasts.each_ref().map(pid);
        // The sidecar listens.
        until("the sidecar's port", || {
            let tcp = fs::read_to_string(root.join(format!("proc/{side}/net/tcp"))).ok()?;
            tcp.contains(&format!(":{PORT:04X} 00000000:0000 0A"))
                .then_some(())
        });
        Processes {
            lab: self.lab,
            proc: root.join("proc"),
            app,
            side,
        }
    }
}

struct Processes<'lab> {
    lab: &'lab Lab,
    proc: PathBuf,
    app: u32,
    side: u32,
}

impl Processes<'_> {
    fn load_rules(&self) -> CostlyRules {
        let namespace = self.proc.join(format!("{}/ns/net", self.side));
        CostlyRules::load(&[namespace], "", DEEP, LIMIT)
    }

    /// The time from a signal to a process until another process, or the same one, is gone.
    fn ends_after(&self, signal: &str, signalled: u32, ends: u32) -> Duration {
        kill(self.lab, signal, signalled);
        // The command itself takes up to a second on a busy machine.
        let begun = Instant::now();
        let process = self.proc.join(ends.to_string());
        until("the end of a process", || (!process.exists()).then_some(()));
        begun.elapsed()
    }
}
