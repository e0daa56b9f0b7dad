//! `kubectl usher`, from outside of the node, with a kubeconfig.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use usher_tests::synthetic::program;

use crate::{
    lab::{self, Lab, until},
    ran::Ran,
    workload::{container_ends, container_runs, meshed_job, pod},
};

fn kubectl_usher(kubeconfig: &Path, words: &[&str]) -> Ran {
    let program = program::beside_this("kubectl-usher").expect("it is built with all programs");
    let mut command = Command::new(program);
    Ran::of(command.env("KUBECONFIG", kubeconfig).args(words))
}

/// A pod whose app has ended and whose proxy usher must not terminate.
fn stuck_pod(lab: &Lab, namespace: &str) -> String {
    let mut job = meshed_job(namespace, "Never", &["--run-for", "500ms"]);
    job["spec"]["template"]["metadata"]["annotations"]["usher.dev/quit"] = json!("false");
    lab.cluster.apply(&job).unwrap();
    container_runs(lab, namespace, "istio-proxy");
    container_ends(lab, namespace, "app");
    let pod = pod(lab, namespace).unwrap();
    pod["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn commands_run_in_the_agent_of_the_node() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("kubectl");
    let name = stuck_pod(&lab, &namespace);
    let full = format!("{}/{name}", &*namespace);
    let kubeconfig = lab.cluster.kubeconfig();
    let run = |words: &[&str]| kubectl_usher(&kubeconfig, words);
    let stuck = until("the pod to be stuck", || {
        let ran = run(&["stuck", "--all-nodes", "-n", &namespace]);
        (ran.code == Some(1)).then_some(ran)
    });
    let text = stuck.text();
    assert!(
        text.contains(&full) && text.contains("sidecar-stays: opt-out: "),
        "{text}"
    );
    // A part of the pod's name is enough; the exit code is that of the command.
    let explained = run(&["explain", "-n", &namespace, "job", "-o", "json"]);
    assert_eq!(explained.code, Some(1), "{}", explained.stderr);
    let explained: Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert_eq!(explained["name"], name);
    assert_eq!(explained["stuck"]["containers"], json!(["istio-proxy"]));
    let captured = run(&["capture", &full, "--duration", "2s", "-w", "-"]);
    assert_eq!(captured.code, Some(0), "{}", captured.stderr);
    // The magic number of pcapng's section header.
    assert_eq!(captured.stdout[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    // Envoy may still be starting when the pod is stuck.
    until("a response of Envoy's admin port", || {
        let answered = run(&["request", &full, "GET", ":15000/server_info"]);
        (answered.code == Some(0)).then_some(())
    });
    let absent = run(&["explain", "-n", &namespace, "absent"]);
    assert_eq!(absent.code, Some(4), "{}", absent.stderr);
    let node = lab.cluster.node_name();
    let status = run(&["status", "--node", node]);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
}

/// Otherwise it keeps one of the agent's places for readers.
#[test]
fn watch_ends_with_a_killed_client() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let program = program::beside_this("kubectl-usher").expect("it is built with all programs");
    let node = ["--node", lab.cluster.node_name()];
    let mut client = Command::new(program)
        .env("KUBECONFIG", lab.cluster.kubeconfig())
        // No pod has this name, so that nothing is written that would fail.
        .args(["watch", "killed-client"])
        .args(node)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let runs = || {
        !lab.pgrep(&["-f", "usher watch .* killed-client$"])
            .is_empty()
    };
    until("the command in the agent", || runs().then_some(()));
    client.kill().unwrap();
    client.wait().unwrap();
    until("its end", || (!runs()).then_some(()));
}

#[test]
fn a_missing_right_is_named() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("kubectl-rights");
    let name = stuck_pod(&lab, &namespace);
    let token = ["create", "token", "default", "-n", &namespace];
    let token = lab.cluster.kubectl(&token).unwrap();
    let config = fs::read_to_string(lab.cluster.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["users"][0]["user"] = json!({"token": token.trim()});
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let explain = || kubectl_usher(&kubeconfig, &["explain", "-n", &namespace, &name]);
    let refused = explain();
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    let text = format!("missing permission: get pods in namespace {}", &*namespace);
    assert!(refused.stderr.contains(&text), "{}", refused.stderr);
    let subject = format!("--serviceaccount={}:default", &*namespace);
    let role = format!("{}-view", &*namespace);
    let bind = [
        "create",
        "clusterrolebinding",
        &role,
        "--clusterrole=view",
        &subject,
    ];
    lab.cluster.kubectl(&bind).unwrap();
    let refused = until("the role to apply", || {
        let ran = explain();
        ran.stderr.contains("pods/exec").then_some(ran)
    });
    lab.cluster
        .kubectl(&["delete", "clusterrolebinding", &role])
        .unwrap();
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    let text = "missing permission: get and create pods/exec in namespace usher";
    assert!(refused.stderr.contains(text), "{}", refused.stderr);
}
