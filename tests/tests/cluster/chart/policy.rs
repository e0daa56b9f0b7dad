//! The permission to patch Nodes for the startup taint, and its limits in the admission policy.

use std::process::Command;

use serde_json::{Value, json};
use usher_cluster::{Cluster, image::catalog::PAUSE, progress::output};

use super::release::Release;
use crate::lab::{self, USHER, until};

const KEY: &str = "usher.dev/not-ready";
const OTHER_KEY: &str = "test/other";
/// There is no agent on the node: the test sends the requests in its name.
const VALUES: [&str; 2] = ["startupTaint.enabled=true", "nodeSelector.test/agents=none"];
const STAND_IN: &str = "stand-in";
const ELSEWHERE: &str = "elsewhere";

/// The API server from the view of a token's holder.
struct Holder<'a> {
    cluster: &'a Cluster,
    token: String,
}

impl Holder<'_> {
    /// Patches a Node, and returns the API server's rejection.
    fn patch(&self, node: &str, patch: &Value) -> Result<(), String> {
        let view = ["config", "view", "--raw", "--minify"];
        let config = self.cluster.kubectl_json(&view).unwrap();
        let server = config["clusters"][0]["cluster"]["server"].as_str();
        let (server, patch) = (server.unwrap(), patch.to_string());
        let mut kubectl: Command = self.cluster.kubectl_command();
        // Without the administrator's certificate, which would precede the token.
        kubectl.env("KUBECONFIG", "/dev/null");
        kubectl.args(["--server", server, "--insecure-skip-tls-verify"]);
        kubectl.args(["--token", &self.token, "patch", "node", node, "-p", &patch]);
        match output(kubectl.args(["--type", "merge"])) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{error:#}")),
        }
    }
}

/// Restores the Nodes, even if the test fails.
struct Nodes<'a>(&'a Cluster);

impl Drop for Nodes<'_> {
    fn drop(&mut self) {
        let untaint = r#"{"spec":{"taints":null}}"#;
        let node = self.0.node_name();
        let patch = ["patch", "node", node, "--type", "merge", "-p", untaint];
        let delete = ["delete", "node", ELSEWHERE, "--ignore-not-found"];
        // The test may have failed because the cluster is gone.
        self.0.kubectl(&patch).ok();
        self.0.kubectl(&delete).ok();
    }
}

fn taints(taints: &[&str]) -> Value {
    let taint = |key: &&str| json!({ "key": key, "effect": "PreferNoSchedule" });
    json!({ "spec": { "taints": taints.iter().map(taint).collect::<Vec<_>>() } })
}

#[test]
fn agent_may_only_remove_the_startup_taint_of_its_node() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let cluster = &lab.cluster;
    let node = cluster.node_name();
    let _release = Release::install(&lab, &VALUES);
    cluster.apply(&stand_in()).unwrap();
    until("the stand-in", || {
        let get = ["-n", USHER, "get", "pod", STAND_IN];
        let pod = cluster.kubectl_json(&get).ok()?;
        (pod["status"]["phase"] == "Running").then_some(())
    });
    let admin = |name: &str, patch: &Value| {
        let patch = patch.to_string();
        let args = ["patch", "node", name, "--type", "merge", "-p", &patch];
        cluster.kubectl(&args).unwrap();
    };
    let _nodes = Nodes(cluster);
    let elsewhere =
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": ELSEWHERE } });
    cluster.apply(&elsewhere).unwrap();
    let token = |bound: &[&str]| {
        let create = ["-n", USHER, "create", "token", USHER];
        let token = cluster.kubectl(&[&create[..], bound].concat()).unwrap();
        let token = token.trim().to_owned();
        Holder { cluster, token }
    };
    let agent = token(&["--bound-object-kind=Pod", "--bound-object-name", STAND_IN]);
    let stolen = token(&[]);
    for name in [node, ELSEWHERE] {
        admin(name, &taints(&[KEY, OTHER_KEY]));
    }

    let ready = taints(&[OTHER_KEY]);
    let refused = [
        (&agent, node, taints(&[]), "no other taint"),
        (&agent, node, taints(&[KEY]), "no other taint"),
        (
            &agent,
            node,
            taints(&[KEY, OTHER_KEY, "test/new"]),
            "adds and changes no taint",
        ),
        (
            &agent,
            node,
            json!({ "spec": { "unschedulable": true } }),
            "nothing of a Node's spec",
        ),
        (
            &agent,
            node,
            json!({ "metadata": { "labels": { "a": "b" } } }),
            "nothing of a Node's metadata",
        ),
        (
            &agent,
            node,
            json!({ "metadata": { "annotations": { "usher.dev/mode": "enforce" } } }),
            "nothing of a Node's metadata",
        ),
        (
            &agent,
            node,
            json!({ "metadata": { "finalizers": ["test/never"] } }),
            "nothing of a Node's metadata",
        ),
        (&agent, ELSEWHERE, ready.clone(), "the Node that it runs on"),
        (&stolen, node, ready.clone(), "the Node that it runs on"),
    ];
    for (holder, name, patch, why) in refused {
        let rejection = holder.patch(name, &patch);
        let rejection = rejection.expect_err(&format!("{patch} of {name} was admitted"));
        assert!(rejection.contains(why), "{patch} of {name}: {rejection}");
    }
    agent.patch(node, &ready).unwrap();
    let now = cluster.kubectl_json(&["get", "node", node]).unwrap();
    let keys = now["spec"]["taints"].as_array().unwrap().iter();
    let keys: Vec<&str> = keys.filter_map(|taint| taint["key"].as_str()).collect();
    assert!(
        keys.contains(&OTHER_KEY) && !keys.contains(&KEY),
        "{keys:?}"
    );
}

/// A pod of the agent's account: the token that is bound to it names its node.
fn stand_in() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": STAND_IN, "namespace": USHER },
        "spec": {
            "serviceAccountName": USHER,
            "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "pause", "image": PAUSE, "imagePullPolicy": "Never" }],
        },
    })
}
