//! Many Jobs at once, for faults that are to find pods in every state.
//!
//! Their sidecar costs next to nothing and starts after the app, whose only connection to it has to be held: an app that
//! is refused fails its Job.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use usher_cluster::workload::{app_container, job};
use usher_tests::wait::found_within;

use crate::{
    lab::{Lab, until},
    workload::runs,
};

/// After an outage the kubelet and the controllers look for the API server every 30 s, one after the other.
const PATIENCE: Duration = Duration::from_secs(180);
/// Where the runtime went while it started the sidecar, the kubelet has it made again up to 30 s later. A kubelet that starts
/// again needs 3 s for each container that ends meanwhile before it makes anything: 62 s were seen. `connect()` gives up
/// after 131 s.
const DEADLINE: &str = "120s";
pub(crate) const SIDECAR: &str = "side";
const PORT: &str = "9000";
/// Jobs that complete, as far as usher is concerned, may have to be tried again where the runtime dies in the middle of a start.
const RETRIES: u8 = 4;

/// What was decided about one pod, how often.
pub(crate) type Counts = BTreeMap<String, usize>;

/// A Job whose app lasts so long once it has its connection.
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

/// Waits until so many pods of a namespace are in this phase and gives their names.
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

/// Waits until so many pods of a namespace have all their containers running at the same time.
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

/// What the agent decided, by pod.
pub(crate) fn decisions_by_pod(lab: &Lab, namespace: &str) -> BTreeMap<String, Counts> {
    let mut pods: BTreeMap<String, Counts> = BTreeMap::new();
    for line in lab.decisions(namespace) {
        let pod = line.text("pod").split_once('/').unwrap().1.to_owned();
        let counts = pods.entry(pod).or_default();
        *counts.entry(line.text("decision").to_owned()).or_default() += 1;
    }
    pods
}

/// Every one of these pods was found finished once, its sidecar was asked once, and ended once. Where a runtime died while
/// it started a container, the kubelet started that again, and the first one may live on beside it: then each run counts.
pub(crate) fn each_was_shown_out_once(lab: &Lab, namespace: &str, pods: &[String]) {
    let decided = until(&format!("the end of every sidecar in {namespace}"), || {
        let decided = decisions_by_pod(lab, namespace);
        let ended = |pod: &String| {
            let counts = decided.get(pod);
            counts.is_some_and(|counts| counts.contains_key("sidecar-ended"))
        };
        pods.iter().all(ended).then_some(decided)
    });
    let runs_of = runs_by_pod(lab, namespace);
    for pod in pods {
        let (runs, decisions) = (runs_of[pod], &decided[pod]);
        let count = |decision: &str| decisions.get(decision).copied().unwrap_or_default();
        let each = |decision| (1..=runs).contains(&count(decision));
        // An app that the kubelet killed and started again had ended under its policy, and an end that came before the answer
        // to its request leaves nothing to accept.
        let accepted = count("quit-accepted") <= runs;
        let well = each("pod-finished") && accepted && each("sidecar-ended");
        assert!(well, "{pod}, {runs} runs: {decisions:?}");
    }
}

/// How many runs a container of each pod has had at most.
fn runs_by_pod(lab: &Lab, namespace: &str) -> BTreeMap<String, usize> {
    let list = ["-n", namespace, "get", "pods"];
    let pods = lab.cluster.kubectl_json(&list).unwrap();
    let most = |pod: &Value| runs(pod, "app").max(runs(pod, SIDECAR));
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    let pods = pods["items"].as_array().unwrap().iter();
    pods.map(|pod| (name(pod), most(pod))).collect()
}
