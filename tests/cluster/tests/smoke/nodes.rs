//! Two nodes of one cluster reach each other, and share nothing.

use std::{fs, process::Command};

use serde_json::{Value, json};
use usher_cluster::{
    Cluster, Component, Config, Layout, Member, Signal,
    programs::Containerd,
    workload::{app_container, job, pod},
};

use super::{NAMESPACE, cluster, complete, traces, until};

const SERVICE: &str = "10.96.0.90";

fn on(node: &Member, mut object: Value) -> Value {
    let spec = match object["kind"] == "Job" {
        true => &mut object["spec"]["template"]["spec"],
        false => &mut object["spec"],
    };
    spec["nodeSelector"] = json!({ "kubernetes.io/hostname": node.name() });
    object
}

/// A Job on a node that completes when it gets a response.
fn asks(cluster: &Cluster, node: &Member, name: &str, server: &str) {
    let args = ["--get", server, "--retry-for", "30s"];
    let asking = job(name, NAMESPACE, "Never", &[app_container("app", &args)]);
    cluster.apply(&on(node, asking)).unwrap();
    complete(cluster, name);
}

/// A pod on each node, and a Service of the second one's.
fn reach_each_other(cluster: &Cluster, nodes: &[Member]) {
    let address = |name: &str| {
        let args = ["get", "pod", name, "-o", "jsonpath={.status.podIP}"];
        until("the pod's address", || {
            cluster.kubectl(&args).ok().filter(|ip| !ip.is_empty())
        })
    };
    for (node, name) in nodes.iter().zip(["serves-1", "serves-2"]) {
        let server = app_container("app", &["--serve", "8000"]);
        let serving = pod(name, NAMESPACE, "Never", &[server]);
        cluster.apply(&on(node, serving)).unwrap();
    }
    cluster
        .apply(&json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": "server", "namespace": NAMESPACE },
            "spec": {
                "clusterIP": SERVICE,
                "selector": { "app": "serves-2" },
                "ports": [{ "port": 80, "targetPort": 8000 }],
            },
        }))
        .unwrap();
    let (one, two) = (address("serves-1"), address("serves-2"));
    assert!(one.starts_with("10.88.") && two.starts_with("10.89."));
    asks(cluster, &nodes[0], "one-to-two", &format!("{two}:8000"));
    asks(cluster, &nodes[1], "two-to-one", &format!("{one}:8000"));
    asks(
        cluster,
        &nodes[0],
        "service-from-one",
        &format!("{SERVICE}:80"),
    );
    asks(
        cluster,
        &nodes[1],
        "service-from-two",
        &format!("{SERVICE}:80"),
    );
    // The API server reaches the kubelet of the second node.
    let log = cluster.kubectl(&["logs", "serves-2"]).unwrap();
    assert!(log.contains("app-listen port=8000"), "{log}");
}

/// The UIDs of the pods in a node's cgroups.
fn pods_of(node: &Member) -> Vec<String> {
    let find = ["find", "/sys/fs/cgroup/", "-type", "d", "-name", "pod*-*"];
    let found = node.run(&find).unwrap();
    let name = |path: &str| path.rsplit('/').next().map(|dir| dir["pod".len()..].into());
    found.lines().filter_map(name).collect()
}

fn share_nothing(cluster: &Cluster, nodes: &[Member]) {
    let pods = cluster.kubectl_json(&["get", "pods"]).unwrap();
    let pods = pods["items"].as_array().unwrap();
    let uid = |name: &str| {
        let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name);
        pod.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let (one, two) = (uid("serves-1"), uid("serves-2"));
    let seen = [pods_of(&nodes[0]), pods_of(&nodes[1])];
    assert!(
        seen[0].contains(&one) && !seen[0].contains(&two),
        "{seen:?}"
    );
    assert!(
        seen[1].contains(&two) && !seen[1].contains(&one),
        "{seen:?}"
    );
}

fn work_again_after(cluster: &Cluster, nodes: &[Member], name: &str) {
    cluster.up().unwrap();
    for (number, node) in nodes.iter().enumerate() {
        let name = format!("{name}-{number}");
        let app = job(&name, NAMESPACE, "Never", &[app_container("app", &[])]);
        cluster.apply(&on(node, app)).unwrap();
        complete(cluster, &name);
    }
}

fn heal(cluster: &Cluster, nodes: &[Member]) {
    for component in [Component::Kubelet, Component::Containerd] {
        nodes[1].stop(component, Signal::SIGKILL).unwrap();
    }
    work_again_after(cluster, nodes, "after-kubelet");
    // The whole first node, by its pid 1: the cable of the second one ends in it.
    let init = fs::read_to_string(cluster.state_dir().join("init.pid")).unwrap();
    let init = init.split_whitespace().next().unwrap();
    let killed = Command::new("kill").args(["-KILL", init]).status();
    assert!(killed.unwrap().success());
    until("the end of the first node", || {
        (!cluster.status().node).then_some(())
    });
    work_again_after(cluster, nodes, "after-node");
}

fn two_nodes(name: &str, layout: Layout) {
    let ended = cluster(name, layout, Containerd::Debian);
    // A second node may be added later.
    ended.0.up().unwrap();
    assert_eq!(ended.0.members().unwrap().len(), 1);
    let cluster = Cluster::with(Config {
        nodes: Some(2),
        cgroups: Some(layout),
        ..Config::from_env(name).unwrap()
    })
    .unwrap();
    cluster.up().unwrap();
    let nodes = cluster.members().unwrap();
    assert_eq!(nodes.len(), 2);
    reach_each_other(&cluster, &nodes);
    share_nothing(&cluster, &nodes);
    heal(&cluster, &nodes);
    // The caller that removes the cluster need not know how many nodes there are.
    ended.0.down().unwrap();
    assert_eq!(traces(&cluster, &nodes), Vec::<String>::new());
}

#[test]
#[ignore = "needs root and a minute"]
fn two_nodes_with_hybrid_cgroups() {
    two_nodes("smoke-pair", Layout::Hybrid);
}

#[test]
#[ignore = "needs root and a minute"]
fn two_nodes_with_cgroup_v2() {
    two_nodes("smoke-pair-v2", Layout::V2);
}
