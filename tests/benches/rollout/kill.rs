//! Signals to a container that requested nothing, while usher waits for the stop signal of another one.

use std::time::Instant;

use serde_json::json;
use usher_cluster::workload::{app_container, pod};
use usher_tests::{
    record::{Record, Sample},
    wait::found_within,
};

use crate::{Effort, PATIENCE, armed, place::Place};

/// The state of containerd's containers.
const RUNTIME_ROOT: &str = "/run/containerd/runc/k8s.io";
/// A signal without an effect.
const SIGNAL: &str = "WINCH";
const AGENT: [&str; 4] = ["-n", "usher", "patch", "daemonset/usher"];

pub(crate) fn measure(record: &mut Record, place: &Place, effort: &Effort) {
    let requests = run(place, "requests", Some("5s"));
    let id = run(place, "requests-nothing", None);
    armed::wait(place, &[&requests]);
    let (mut with, mut without) = (Sample::default(), Sample::default());
    signal(place, &id, effort.kills / 2, &mut with);
    node_selector(place, &json!({ "usher.test/agents": "none" }));
    found_within(PATIENCE, "the end of the agent", || {
        // `pgrep` fails if it finds no process.
        place.cluster.in_node(&["pgrep", "-x", "usher-agent"]).err()
    });
    signal(place, &id, effort.kills, &mut without);
    node_selector(place, &json!(null));
    let rollout = [
        "-n",
        "usher",
        "rollout",
        "status",
        "daemonset/usher",
        "--timeout=180s",
    ];
    place.cluster.kubectl(&rollout).unwrap();
    signal(place, &id, effort.kills / 2, &mut with);
    record.section("runc kill of a container that requested nothing");
    record.times("usher", &with);
    record.times("without usher", &without);
    for (part, name) in [(0.5, "p50"), (0.99, "p99")] {
        let what = format!("{name}, usher / without usher");
        record.figure(&what, with.quantile_ms(part) / without.quantile_ms(part));
    }
}

/// The id of the container of a new pod.
fn run(place: &Place, name: &str, pre_stop: Option<&str>) -> String {
    let app = app_container("app", &["--listen", "8080", "--term-code", "0"]);
    let mut object = pod(name, &place.namespace, "Always", &[app]);
    if let Some(time) = pre_stop {
        // Longer than the reserve, which belongs to the app.
        object["spec"]["terminationGracePeriodSeconds"] = json!(30);
        object["metadata"]["annotations"]["usher.dev/pre-stop"] = json!(time);
    }
    place.cluster.apply(&object).unwrap();
    let id = "jsonpath={.status.containerStatuses[0].containerID}";
    let get = ["-n", &place.namespace, "get", "pod", name, "-o", id];
    found_within(PATIENCE, "the id of a container", || {
        let id = place.cluster.kubectl(&get).ok()?;
        id.strip_prefix("containerd://").map(str::to_owned)
    })
}

fn node_selector(place: &Place, selector: &serde_json::Value) {
    let patch = json!({ "spec": { "template": { "spec": { "nodeSelector": selector } } } });
    let patch = patch.to_string();
    let args = [&AGENT[..], &["-p", &patch]].concat();
    place.cluster.kubectl(&args).unwrap();
}

fn signal(place: &Place, id: &str, times: usize, sample: &mut Sample) {
    let command = ["runc", "--root", RUNTIME_ROOT, "kill", id, SIGNAL];
    for _ in 0..times {
        let begun = Instant::now();
        place.cluster.in_node(&command).unwrap();
        sample.add(begun.elapsed());
    }
}
