//! `usher conns` in the agent's container, for a pod with a real Istio sidecar, compared with `ss` in the same namespace.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use usher_cluster::workload::{app_container, istio_proxy_container, pod};

use crate::{
    lab::{self, Lab, USHER, until},
    workload::container_runs,
};

fn conns(lab: &Lab, pod: &str, flags: &[&str]) -> Option<Value> {
    let exec = ["-n", USHER, "exec", "ds/usher", "--", "usher", "conns", pod];
    let args = [&exec[..], &["-o", "json"], flags].concat();
    let stdout = lab.cluster.kubectl(&args).ok()?;
    Some(serde_json::from_str(&stdout).unwrap())
}

/// Protocol, state, and both ends, without short-lived sockets.
type Sockets = BTreeSet<[String; 4]>;

fn by_ss(lab: &Lab, pid: &Value) -> Sockets {
    let netns = format!("--net=/proc/{pid}/ns/net");
    let stdout = lab
        .cluster
        .in_node(&["nsenter", &netns, "ss", "-H", "-tuan"])
        .unwrap();
    let lines = stdout.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let peer = if words[5].ends_with(":*") {
            "*"
        } else {
            words[5]
        };
        // `*` is the address of an IPv6 socket that accepts both families.
        let local = words[4].replace("*:", "[::]:");
        [words[0], words[1], &local, peer].map(str::to_owned)
    });
    lines.collect()
}

fn by_usher(answer: &Value) -> Sockets {
    let rows = answer["sockets"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or("*").to_owned();
    let row = |row: &Value| {
        [
            text(&row["protocol"]),
            text(&row["state"]),
            text(&row["local"]),
            text(&row["peer"]),
        ]
    };
    // A port that Envoy has bound and not opened yet: `ss` does not list these.
    let is_bound = |row: &[String; 4]| row[0] == "tcp" && row[1] == "UNCONN";
    rows.map(row).filter(|row| !is_bound(row)).collect()
}

#[test]
fn sidecar_sockets_match_ss() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("conns");
    let app = app_container("app", &["--run-for", "600s", "--serve", "8080"]);
    let object = pod(
        "conns",
        &namespace,
        "Never",
        &[app, istio_proxy_container()],
    );
    lab.cluster.apply(&object).unwrap();
    container_runs(&lab, &namespace, "istio-proxy");
    let name = format!("{}/conns", &*namespace);
    // Envoy opens its ports one by one.
    let answer = until("the port of Envoy's own", || {
        let answer = conns(&lab, &name, &["--listening", "--port", "15000"])?;
        let first = answer["sockets"].get(0)?;
        (first["container"] == "istio-proxy").then_some(answer)
    });
    let first = &answer["sockets"][0];
    assert_eq!(answer["gaps"], json!([]), "{answer}");
    assert_eq!(first["processes"][0]["name"], "envoy");
    assert_eq!(first["uid"], 1337);
    let pid = &first["processes"][0]["pid"];
    // The proxy's connections change; eventually two lists have the same ones.
    until("the same sockets by both", || {
        let before = by_ss(&lab, pid);
        let usher = by_usher(&conns(&lab, &name, &["--all"])?);
        (before == usher && before == by_ss(&lab, pid)).then_some(())
    });
    let app = conns(&lab, &name, &["--container", "app", "--listening"]).unwrap();
    assert_eq!(app["sockets"].as_array().unwrap().len(), 1, "{app}");
}
