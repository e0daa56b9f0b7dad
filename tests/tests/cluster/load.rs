//! Many Jobs at once, so that faults affect pods in every state.
//!
//! Their sidecar is cheap and starts after the app. The app's only connection to it has to be held: a refused
//! app fails its Job.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use usher_cluster::workload::{app_container, job};
use usher_tests::wait::found_within;

use crate::{
    lab::{Lab, until},
    workload::{container, runs},
};

/// After an outage the kubelet and the controllers retry the API server every 30 s, one after the other.
const PATIENCE: Duration = Duration::from_secs(180);
/// If the runtime dies during the start of the sidecar, the kubelet recreates it up to 30 s later. A restarting kubelet
/// needs 3 s for each container that ended meanwhile before it creates others: 62 s were observed. `connect()` gives up
/// after 131 s.
const DEADLINE: &str = "120s";
pub(crate) const SIDECAR: &str = "side";
const PORT: &str = "9000";
/// Jobs may need retries if the runtime dies during a start.
const RETRIES: u8 = 4;

/// The decisions about one pod, with their counts.
pub(crate) type Counts = BTreeMap<String, usize>;

/// A Job with an app that runs this long after its connection.
pub(crate) fn light_job(namespace: &str, name: &str, lasts: Duration) -> Value {
    let address = format!("127.0.0.1:{PORT}");
    let lasts = format!("{}ms", lasts.as_millis());
    let containers = [
        app_container("app", &["--connect", &address, "--run-for", &lasts]),
        app_container(SIDECAR, &["--serve", PORT, "--term-code", "0"]),
    ];
    let mut object = job(name, namespace, "Never", &containers);
    object["spec"]["backoffLimit"] = json!(RETRIES);
    object["spec"]["template"]["metadata"]["annotations"] = json!({
        "usher.dev/sidecars": format!("{SIDECAR}=SIGTERM"),
        "usher.dev/hold-ports": format!("{SIDECAR}={PORT}"),
        "usher.dev/hold-deadline": DEADLINE,
    });
    object
}

/// Creates all of them in one request.
pub(crate) fn create(lab: &Lab, jobs: &[Value]) {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": jobs });
    lab.cluster.apply(&list).unwrap();
}

/// Waits until this number of pods of a namespace are in this phase, and returns their names.
pub(crate) fn pods_are(lab: &Lab, namespace: &str, phase: &str, many: usize) -> Vec<String> {
    let selector = format!("--field-selector=status.phase={phase}");
    let names = "jsonpath={.items[*].metadata.name}";
    let list = ["-n", namespace, "get", "pods", &selector, "-o", names];
    until(&format!("{many} pods {phase} in {namespace}"), || {
        let names = lab.cluster.kubectl(&list).ok()?;
        let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        (names.len() >= many).then_some(names)
    })
}

/// Waits until this number of pods of a namespace have all their containers running at the same time.
pub(crate) fn pods_run(lab: &Lab, namespace: &str, many: usize, limit: Duration) {
    let ready = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
    let list = ["-n", namespace, "get", "pods", "-o", ready];
    found_within(
        limit,
        &format!("{many} pods that run in {namespace}"),
        || {
            let ready = lab.cluster.kubectl(&list).ok()?;
            let count = ready
                .split_whitespace()
                .filter(|one| *one == "True")
                .count();
            (count >= many).then_some(())
        },
    );
}

/// Waits until every Job of a namespace is complete.
pub(crate) fn all_complete(lab: &Lab, namespace: &str, many: usize) {
    let list = ["-n", namespace, "get", "jobs"];
    found_within(
        PATIENCE,
        &format!("{many} complete Jobs in {namespace}"),
        || {
            let jobs = lab.cluster.kubectl_json(&list).ok()?;
            let complete = jobs["items"].as_array()?.iter().filter(|job| {
                let conditions = job["status"]["conditions"].as_array();
                let mut conditions = conditions.into_iter().flatten();
                conditions.any(|one| one["type"] == "Complete" && one["status"] == "True")
            });
            (complete.count() == many).then_some(())
        },
    );
}

/// The agent's decisions, by pod.
pub(crate) fn decisions_by_pod(lab: &Lab, namespace: &str) -> BTreeMap<String, Counts> {
    let mut pods: BTreeMap<String, Counts> = BTreeMap::new();
    for line in lab.decisions(namespace) {
        let pod = line.text("pod").split_once('/').unwrap().1.to_owned();
        let counts = pods.entry(pod).or_default();
        *counts.entry(line.text("decision").to_owned()).or_default() += 1;
    }
    pods
}

/// Each of these pods was reported as finished once, and its sidecar received one request and exited once. If the
/// runtime died during the start of a container, the kubelet restarted the container, and the first run may still
/// exist. Then each run counts. A sidecar that the kubelet killed before its app ended is not usher's.
pub(crate) fn each_was_quit_once(lab: &Lab, namespace: &str, pods: &[String]) {
    let by_kubelet = ended_before_their_apps(lab, namespace);
    let pods: Vec<&String> = pods
        .iter()
        .filter(|pod| !by_kubelet.contains(*pod))
        .collect();
    assert!(pods.len() > by_kubelet.len(), "{by_kubelet:?}");
    let decided = until(&format!("the end of every sidecar in {namespace}"), || {
        let decided = decisions_by_pod(lab, namespace);
        let ended = |pod: &&String| {
            let counts = decided.get(*pod);
            counts.is_some_and(|counts| counts.contains_key("sidecar-ended"))
        };
        pods.iter().all(ended).then_some(decided)
    });
    let runs_of = runs_by_pod(lab, namespace);
    for pod in pods {
        let (runs, decisions) = (runs_of[pod], &decided[pod]);
        let count = |decision: &str| decisions.get(decision).copied().unwrap_or_default();
        let each = |decision| (1..=runs).contains(&count(decision));
        // An app that the kubelet killed and restarted may have finished its pod before. A sidecar that exits before its
        // response has no accepted request.
        let accepted = count("quit-accepted") <= runs;
        let well = each("pod-finished") && accepted && each("sidecar-ended");
        assert!(well, "{pod}, {runs} runs: {decisions:?}");
    }
}

/// Pods with a sidecar that ended not later than their app, without a request of usher: where the runtime died
/// during the start of a sidecar, the kubelet kills that run.
fn ended_before_their_apps(lab: &Lab, namespace: &str) -> Vec<String> {
    let pods = lab.cluster.kubectl_json(&["-n", namespace, "get", "pods"]);
    let pods = pods.unwrap();
    let decided = decisions_by_pod(lab, namespace);
    let finished = |pod: &Value, name: &str| {
        let at = &container(pod, name)["state"]["terminated"]["finishedAt"];
        // Times of the API in UTC sort as texts.
        at.as_str().map(str::to_owned)
    };
    let pods = pods["items"].as_array().unwrap().iter();
    pods.filter(|pod| {
        let ends = finished(pod, SIDECAR).zip(finished(pod, "app"));
        ends.is_some_and(|(sidecar, app)| sidecar <= app)
    })
    .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
    .filter(|name| {
        let counts = decided.get(name);
        !counts.is_some_and(|counts| counts.contains_key("quit-accepted"))
    })
    .collect()
}

/// The maximum number of runs of a container, by pod.
fn runs_by_pod(lab: &Lab, namespace: &str) -> BTreeMap<String, usize> {
    let list = ["-n", namespace, "get", "pods"];
    let pods = lab.cluster.kubectl_json(&list).unwrap();
    let most = |pod: &Value| runs(pod, "app").max(runs(pod, SIDECAR));
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    let pods = pods["items"].as_array().unwrap().iter();
    pods.map(|pod| (name(pod), most(pod))).collect()
}
