//! Pods from public issues and charts, as data: the spec, the kubelet's status, and the node's data. Each has one
//! verdict and one cause.
//!
//! A container has the fields of its spec, and its state in `is`: `running SINCE`, `unready SINCE`,
//! `ended START END CODE` or `waiting REASON`. `before` is its previous run, `START END CODE`. Times are seconds before
//! the present. By default a pod belongs to a Job and has `restartPolicy: Never`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use usher_core::{admin::Modes, decision::timeline::Entry, settings::mode::Mode};

use super::{
    pods::{NOW_MS, Scenario, UID, job, known, time},
    troubles,
};
use crate::explain::Attempts;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pod {
    scenario: String,
    /// The issue or the chart with such a pod, or the page that describes its state.
    #[serde(rename = "source")]
    _source: String,
    #[serde(default)]
    policy: Option<String>,
    /// The age of the pod.
    #[serde(default)]
    age: Option<u64>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    shared: bool,
    #[serde(default)]
    deadline: Option<u64>,
    /// Seconds since the deletion.
    #[serde(default)]
    deleted: Option<u64>,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    init: Vec<Map<String, Value>>,
    containers: Vec<Map<String, Value>>,
    #[serde(default)]
    mode: Option<String>,
    /// All connection attempts and those that failed.
    #[serde(default)]
    attempts: Option<(u64, u64)>,
    #[serde(default)]
    redirect: Option<String>,
    /// Ports with listeners.
    #[serde(default)]
    listens: Option<Vec<u16>>,
    /// Decisions of usher; `ago` is their age.
    #[serde(default)]
    timeline: Vec<Map<String, Value>>,
    /// The findings that are problems.
    #[serde(default)]
    findings: Vec<String>,
    /// Texts that the verdict or the findings contain.
    #[serde(default)]
    words: Vec<String>,
    /// Texts that no output contains.
    #[serde(default)]
    never: Vec<String>,
}

fn number(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no number"))
}

fn terminated(words: &[&str]) -> Value {
    let [start, end, code] = words else {
        panic!("{words:?} is no run");
    };
    let code = i64::try_from(number(code)).unwrap();
    let reason = if code == 0 { "Completed" } else { "Error" };
    json!({"terminated": {
        "exitCode": code, "reason": reason,
        "startedAt": time(number(start)), "finishedAt": time(number(end)),
    }})
}

/// Removes the state from a container, and returns it as a status.
fn status(container: &mut Map<String, Value>) -> Option<Value> {
    let is = container.remove("is");
    let before = container.remove("before");
    let restarts = container.remove("restarts").unwrap_or_else(|| json!(0));
    let is = is?.as_str().unwrap().to_owned();
    let words: Vec<&str> = is.split(' ').collect();
    let running = |since: &str| json!({"running": {"startedAt": time(number(since))}});
    let (state, ready) = match &words[..] {
        ["running", since] => (running(since), true),
        ["unready", since] => (running(since), false),
        ["ended", run @ ..] => (terminated(run), false),
        ["waiting"] => (json!({"waiting": {}}), false),
        ["waiting", reason] => (json!({"waiting": {"reason": reason}}), false),
        _ => panic!("{is:?} is no state"),
    };
    let before = before.map(|run| {
        let run = run.as_str().unwrap().to_owned();
        terminated(&run.split(' ').collect::<Vec<_>>())
    });
    let restarts = match (&before, restarts.as_u64()) {
        (Some(_), Some(0)) => json!(1),
        _ => restarts,
    };
    Some(json!({
        "name": container["name"], "restartCount": restarts, "ready": ready,
        "state": state, "lastState": before.unwrap_or_else(|| json!({})),
    }))
}

impl Pod {
    fn scenario(&self) -> Scenario {
        let mut pod = job(&[]);
        for (specs, statuses, containers) in [
            ("initContainers", "initContainerStatuses", &self.init),
            ("containers", "containerStatuses", &self.containers),
        ] {
            let mut containers = containers.clone();
            let found: Vec<Value> = containers.iter_mut().filter_map(status).collect();
            pod["spec"][specs] = json!(containers);
            pod["status"][statuses] = json!(found);
        }
        let (spec, metadata) = (self.age.unwrap_or(60), &mut pod["metadata"]);
        metadata["annotations"] = json!(self.annotations);
        metadata["creationTimestamp"] = json!(time(spec + 1));
        if let Some(ago) = self.deleted {
            metadata["deletionTimestamp"] = json!(time(ago));
        }
        pod["status"]["startTime"] = json!(time(spec));
        pod["status"]["phase"] = json!(self.phase.as_deref().unwrap_or("Running"));
        if let Some(reason) = &self.reason {
            pod["status"]["reason"] = json!(reason);
        }
        pod["spec"]["restartPolicy"] = json!(self.policy.as_deref().unwrap_or("Never"));
        pod["spec"]["shareProcessNamespace"] = json!(self.shared);
        if let Some(deadline) = self.deadline {
            pod["spec"]["activeDeadlineSeconds"] = json!(deadline);
        }
        let mut scenario = Scenario::new(pod);
        let mode: Mode = self.mode.as_deref().unwrap_or("enforce").parse().unwrap();
        scenario.seen.modes = Some(Modes {
            quit: mode,
            hold: mode,
            ..known()
        });
        scenario.seen.agent = true;
        scenario.seen.attempts = self.attempts.map(|(all, failed)| Attempts { all, failed });
        scenario.seen.redirect.clone_from(&self.redirect);
        let scenario = match &self.listens {
            Some(ports) => scenario.listening(ports),
            None => scenario,
        };
        self.timeline.iter().fold(scenario, |mut scenario, entry| {
            let mut entry = entry.clone();
            let ago = entry.remove("ago").and_then(|ago| ago.as_u64()).unwrap();
            entry.insert("at_ms".to_owned(), json!(NOW_MS - ago * 1000));
            entry.insert("uid".to_owned(), json!(UID));
            entry.insert("pod".to_owned(), json!("shop/report"));
            entry.entry("reason").or_insert_with(|| json!("a reason"));
            let entry: Entry = serde_json::from_value(Value::Object(entry)).unwrap();
            scenario.seen.timeline.get_or_insert_default().push(entry);
            scenario
        })
    }
}

#[track_caller]
fn all_are(healthy: bool, table: &str, at_least: usize) {
    let pods: Vec<Pod> = serde_saphyr::from_str(table).unwrap();
    assert!(pods.len() >= at_least, "{}", pods.len());
    let wrong: Vec<String> = pods.iter().filter_map(|pod| wrong(pod, healthy)).collect();
    assert!(
        wrong.is_empty(),
        "{}\n\n{} of {}",
        wrong.join("\n\n"),
        wrong.len(),
        pods.len()
    );
}

/// The errors in the explanation of a pod.
fn wrong(pod: &Pod, healthy: bool) -> Option<String> {
    let scenario = pod.scenario();
    let explanation = scenario.explain();
    let (verdict, findings) = (&explanation.verdict, &explanation.findings);
    let found = troubles(&scenario);
    let text = format!("{verdict:?} {findings:#?}");
    let missing: Vec<&String> = pod
        .words
        .iter()
        .filter(|word| !text.contains(*word))
        .collect();
    let surplus: Vec<&String> = pod
        .never
        .iter()
        .filter(|word| text.contains(*word))
        .collect();
    let is_right = verdict.healthy == healthy
        && found == pod.findings
        && missing.is_empty()
        && surplus.is_empty();
    (!is_right).then(|| {
        format!(
            "{}: expected {:?}, found {found:?}, missing {missing:?}, surplus {surplus:?}\n{text}",
            pod.scenario, pod.findings
        )
    })
}

#[test]
fn broken_pods_are_unhealthy_with_their_cause() {
    all_are(false, include_str!("scenarios/broken.yaml"), 60);
}

#[test]
fn healthy_pods_are_healthy() {
    all_are(true, include_str!("scenarios/healthy.yaml"), 40);
}

#[test]
fn scenario_names_are_unique() {
    let tables = [
        include_str!("scenarios/broken.yaml"),
        include_str!("scenarios/healthy.yaml"),
    ];
    let pods = tables.map(|table| serde_saphyr::from_str::<Vec<Pod>>(table).unwrap());
    let mut names: Vec<&str> = pods.iter().flatten().map(|pod| &pod.scenario[..]).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}
