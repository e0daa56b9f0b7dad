//! Pods that attack the agent on a real node, and a node that lacks permissions: other pods are served.
//!
//! The node suites `isolation` and `hostile` have more attacks, and precise limits.

mod costly_rules;
mod node_network;

use std::{
    panic::AssertUnwindSafe,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use usher_cluster::workload::{self, app_container, job};
use usher_tests::isolation::flood::Flood;

use self::node_network::NodeNetwork;
use crate::{
    lab::{self, Lab, USHER, until},
    load,
    workload::{container_ends, job_becomes, sidecar_is_untouched},
};

const NAMESPACES_RULE: &str = r#"[{"op":"remove","path":"/rules/INDEX"}]"#;

/// Each probe of the agent has a response while clients flood the port for metrics, about as soon as without a flood.
#[test]
fn flood_of_the_metrics_delays_no_probe() {
    const CLIENTS: usize = 3;
    const ROUNDS: usize = 3;
    let Some(lab) = lab::alone() else {
        return;
    };
    let network = NodeNetwork::of(&lab);
    let usual = slowest_probe(&network, || {});
    let flood = Flood::default();
    let rounds: Vec<Duration> = thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| flood.run(|| network.connect(node_network::METRICS)));
        }
        let probed = std::panic::catch_unwind(AssertUnwindSafe(|| {
            (0..ROUNDS)
                .map(|_| slowest_probe(&network, || flood.wait()))
                .collect()
        }));
        flood.stop();
        probed.unwrap()
    });
    let limit = costly_rules::limit(usual, Duration::from_secs(1));
    eprintln!("slowest probe during the flood: {rounds:?}, without it {usual:?}");
    assert!(
        rounds.iter().any(|slowest| *slowest <= limit),
        "{rounds:?}, without a flood {usual:?}"
    );
}

/// The time of the slowest of 100 probes.
fn slowest_probe(network: &NodeNetwork, before_each: impl Fn()) -> Duration {
    let probe = |_| {
        before_each();
        let begun = Instant::now();
        assert_eq!(network.probe("/healthz"), Some(200));
        begun.elapsed()
    };
    (0..100).map(probe).max().unwrap()
}

/// A Namespace that the agent may not read: its pods wait, and its opt-out applies when the agent may read it again.
#[test]
fn opt_out_of_a_forbidden_namespace_applies() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let [opted_out, other] = ["forbidden-opted-out", "forbidden"].map(|name| lab.namespace(name));
    let annotate = ["annotate", "namespace", &opted_out, "usher.dev/quit=false"];
    lab.cluster.kubectl(&annotate).unwrap();
    let forbidden = Forbidden::start(&lab);
    for namespace in [&opted_out, &other] {
        let containers = [
            app_container("app", &["--run-for", "300ms"]),
            workload::istio_proxy_container(),
        ];
        let object = job("job", namespace, "Never", &containers);
        lab.cluster.apply(&object).unwrap();
    }
    for namespace in [&opted_out, &other] {
        let pod = container_ends(&lab, namespace, "app");
        assert!(sidecar_is_untouched(&pod));
        until("a warning about the Namespace", || {
            let log = lab.log();
            let is_warned = log.iter().any(|line| {
                line.text("namespace") == &**namespace
                    && line
                        .text("message")
                        .contains("its pods wait until it can be read")
            });
            is_warned.then_some(())
        });
        assert_eq!(lab.count(namespace, "quit-accepted"), 0);
    }
    drop(forbidden);
    job_becomes(&lab, &other, "Complete");
    lab.decided(&opted_out, "skipped");
    assert_eq!(lab.count(&opted_out, "quit-accepted"), 0);
    let delete = ["-n", &opted_out, "delete", "job", "job"];
    lab.cluster.kubectl(&delete).unwrap();
}

/// The agent's ClusterRole without the permission for Namespaces, until it is dropped.
struct Forbidden<'lab>(&'lab Lab);

impl<'lab> Forbidden<'lab> {
    fn start(lab: &'lab Lab) -> Self {
        let role = ["get", "clusterrole", USHER];
        let role = lab.cluster.kubectl_json(&role).unwrap();
        let rules = role["rules"].as_array().unwrap();
        let namespaces = rules
            .iter()
            .position(|rule| rule["resources"] == json!(["namespaces"]))
            .unwrap();
        let patch = NAMESPACES_RULE.replace("INDEX", &namespaces.to_string());
        let forbidden = Self(lab);
        let args = ["patch", "clusterrole", USHER, "--type=json", "-p", &patch];
        lab.cluster.kubectl(&args).unwrap();
        let account = format!("--as=system:serviceaccount:{USHER}:{USHER}");
        until("the permission to be gone", || {
            let can = ["auth", "can-i", "get", "namespaces", &account];
            // kubectl fails if the answer is no.
            lab.cluster.kubectl(&can).is_err().then_some(())
        });
        forbidden
    }
}

impl Drop for Forbidden<'_> {
    fn drop(&mut self) {
        lab::tidy(|| self.0.apply());
    }
}

/// Jobs whose apps are refused unless they are held.
fn held_job(lab: &Lab, namespace: &str) {
    let job = load::light_job(namespace, "held", Duration::ZERO);
    lab.cluster.apply(&job).unwrap();
    job_named_completes(lab, namespace, "held");
    let armed = |line: &lab::Line| line.text("decision") == "hold-armed";
    assert!(lab.holds(namespace).iter().any(armed));
}

fn job_named_completes(lab: &Lab, namespace: &str, name: &str) {
    until(
        &format!("the Job {name} in {namespace} to complete"),
        || {
            let get = ["-n", namespace, "get", "job", name];
            let job = lab.cluster.kubectl_json(&get).ok()?;
            (job["status"]["succeeded"] == 1).then_some(())
        },
    );
}
