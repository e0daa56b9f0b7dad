//! A node full of real pods, and its agent.

use std::{collections::BTreeMap, fs, thread, time::Duration};

use serde_json::{Value, json};
use usher_cluster::workload::{app_container, pod};
use usher_tests::record::{Limit, Record};
use usher_tests::synthetic::{inventory::Inventory, process::Usage};
use usher_tests::wait::found_within;

use crate::{Effort, place::Place};

const PATIENCE: Duration = Duration::from_secs(900);
/// The time until the agent knows all pods: the kubelet's status follows its containers by a second or two.
const NEW: Duration = Duration::from_secs(15);
const AGENT: &str = "usher-agent";
/// The agent's account at the API server.
const ACCOUNT: &str = "system:serviceaccount:usher:usher";
const LABEL: &str = "full";

pub(crate) fn measure(record: &mut Record, place: &Place, effort: &Effort) {
    // The kubelet's limit of 110 includes the existing pods.
    let pods = effort.real_pods.saturating_sub(running_everywhere(place));
    let agent = agent(place);
    let (lists, requests) = (lists(place), requests(place));
    let start = Usage::with_children(agent);
    let names = (0..pods).map(|number| one(place, number));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": names.collect::<Vec<_>>() });
    place.cluster.apply(&list).unwrap();
    found_within(PATIENCE, "all pods to run", || {
        (running(place) == pods).then_some(())
    });
    thread::sleep(NEW);
    let (came, asked) = (lists_since(place, lists), since(place, &requests));
    let before = Usage::with_children(agent);
    thread::sleep(effort.rest);
    let after = Usage::with_children(agent);
    let rest = since(place, &requests).values().sum::<f64>() - asked.values().sum::<f64>();
    let many = number(pods);
    record.section(&format!(
        "agent with {} real pods, nothing happens for {} s",
        effort.real_pods,
        effort.rest.as_secs()
    ));
    let mib = |usage: Usage| small(usage.resident_kib) / 1024.0;
    record.limit(
        "rest.resident",
        "main process, resident, MiB",
        mib(Usage::of(agent)),
        Limit::AtMost(12.0),
    );
    record.figure("all processes, resident, MiB", mib(after));
    let cpu = (after.cpu - before.cpu).as_secs_f64() / effort.rest.as_secs_f64();
    record.limit(
        "rest.cpu",
        "CPU, % of a core",
        cpu * 100.0,
        Limit::AtMost(0.1),
    );
    record.figure("wake-ups", small(after.wakeups - before.wakeups));
    record.limit(
        "api.rest",
        "requests to the API server",
        rest,
        Limit::AtMost(0.0),
    );
    let each = (before.cpu - start.cpu).as_secs_f64() * 1000.0 / many;
    record.figure("CPU for each pod that came, ms", each);
    record.figure(
        "lists of the kubelet's pods for each pod that came",
        came / many,
    );
    for (what, count) in &asked {
        record.figure(&format!("while {pods} pods came: {what}"), *count);
    }
    let has = Inventory::of(agent);
    record.figure("descriptors", number(has.total()));
    record.figure("inotify watches", number(has.watches));
    let selector = format!("app={LABEL}");
    let delete = ["-n", &place.namespace, "delete", "pods", "-l", &selector];
    let how = ["--grace-period=1", "--wait=false"];
    place
        .cluster
        .kubectl(&[&delete[..], &how].concat())
        .unwrap();
}

/// A pod that does nothing, with a sidecar that usher would terminate.
fn one(place: &Place, number: usize) -> Value {
    let containers = [
        app_container("app", &["--run-for", "7200s"]),
        app_container("sidecar", &["--serve", "9000"]),
    ];
    let mut pod = pod(
        &format!("{LABEL}-{number}"),
        &place.namespace,
        "Never",
        &containers,
    );
    pod["metadata"]["labels"]["app"] = json!(LABEL);
    pod["metadata"]["annotations"] = json!({ "usher.dev/sidecars": "sidecar=SIGTERM" });
    pod
}

/// Pods of the whole node.
fn running_everywhere(place: &Place) -> usize {
    let selector = "--field-selector=status.phase=Running";
    let list = ["get", "pods", "-A", selector, "-o", "name"];
    place.cluster.kubectl(&list).unwrap().lines().count()
}

fn running(place: &Place) -> usize {
    let selector = format!("app={LABEL}");
    let ready = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
    let list = [
        "-n",
        &place.namespace,
        "get",
        "pods",
        "-l",
        &selector,
        "-o",
        ready,
    ];
    let output = place.cluster.kubectl(&list).unwrap();
    output
        .split_whitespace()
        .filter(|one| *one == "True")
        .count()
}

/// The pid of the agent process that is not the holder, in this machine's pid namespace.
fn agent(place: &Place) -> u32 {
    let found = place
        .cluster
        .in_node(&["pgrep", "-o", "-x", AGENT])
        .unwrap();
    let in_node = found.trim();
    let namespace = format!("/proc/{in_node}/ns/pid");
    let namespace = place.cluster.in_node(&["readlink", &namespace]).unwrap();
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut same = pids.filter(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let link = fs::read_link(format!("/proc/{pid}/ns/pid"));
        numbers.and_then(|line| line.split_whitespace().last()) == Some(in_node)
            && link.is_ok_and(|link| link.to_str() == Some(namespace.trim()))
    });
    same.next().unwrap()
}

/// The number of the agent's requests to the kubelet for pods.
fn lists(place: &Place) -> f64 {
    let exec = ["-n", "usher", "exec", "ds/usher", "--", "/usher", "metrics"];
    let what = ["usher_kubelet_requests_total", "-o", "json"];
    let output = place.cluster.kubectl(&[&exec[..], &what].concat()).unwrap();
    let metrics: Value = serde_json::from_str(&output).unwrap();
    let items = metrics["data"]["items"]
        .as_array()
        .or_else(|| metrics["items"].as_array());
    let values = items
        .unwrap()
        .iter()
        .filter_map(|item| item["value"].as_f64());
    values.sum()
}

fn lists_since(place: &Place, before: f64) -> f64 {
    lists(place) - before
}

/// The agent's requests to the API server, by verb and resource.
fn requests(place: &Place) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(place.cluster.audit_log()).unwrap();
    let mut requests = BTreeMap::new();
    for line in text.lines() {
        // The last line may be incomplete.
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        if event["user"]["username"] == ACCOUNT {
            let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
            let (verb, resource) = (word(&event["verb"]), word(&event["objectRef"]["resource"]));
            *requests.entry(format!("{verb} {resource}")).or_default() += 1.0;
        }
    }
    requests
}

fn since(place: &Place, before: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let mut now = requests(place);
    for (what, count) in before {
        *now.entry(what.clone()).or_default() -= count;
    }
    now.retain(|_, count| *count > 0.0);
    now
}

fn number(things: usize) -> f64 {
    f64::from(u32::try_from(things).unwrap())
}

fn small(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap())
}
