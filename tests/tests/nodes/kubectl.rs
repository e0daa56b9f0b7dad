//! `kubectl usher` with a kubeconfig, from outside of the nodes: it runs in the agent of the pod's node, or in all agents.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use serde_json::{Value, json};
use usher_cluster::Member;
use usher_tests::synthetic::program;

use crate::rig::{NAMESPACE, Rig, USHER, until};

/// The magic number of pcapng's section header.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Of Envoy's admin port.
const ADMIN_PATH: &str = "/server_info";

fn run(kubeconfig: &Path, words: &[&str]) -> Output {
    let program = program::beside_this("kubectl-usher").expect("it is built with all programs");
    let mut command = Command::new(program);
    let command = command.env("KUBECONFIG", kubeconfig).args(words);
    command.output().unwrap()
}

fn errors(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

/// Its standard output as JSON; its exit code is this one.
fn report(ran: &Output, code: i32) -> Value {
    assert_eq!(ran.status.code(), Some(code), "{}", errors(ran));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// A finished pod in observe mode on each node: its proxy runs on.
fn stuck_pods(rig: &Rig, jobs: [&str; 2]) -> [String; 2] {
    for (node, job) in rig.nodes.iter().zip(jobs) {
        rig.app_ends(node, job);
    }
    jobs.map(|job| {
        let pod = rig.pod(job).unwrap();
        pod["metadata"]["name"].as_str().unwrap().to_owned()
    })
}

#[test]
fn commands_reach_the_agent_of_each_node() {
    let Some(rig) = Rig::open() else {
        return;
    };
    let kubeconfig = rig.cluster.kubeconfig();
    let run = |words: &[&str]| run(&kubeconfig, words);
    let pods = stuck_pods(&rig, ["near", "far"]);

    let all = ["stuck", "--all-nodes", "-n", NAMESPACE, "-o", "json"];
    let stuck = until("a stuck pod on each node", || {
        let found: Value = serde_json::from_slice(&run(&all).stdout).ok()?;
        let mut nodes = found.as_array()?.iter();
        nodes.all(|node| node["exitCode"] == 1).then_some(found)
    });
    let expected = rig.nodes.iter().zip(&pods);
    for (found, (node, pod)) in stuck.as_array().unwrap().iter().zip(expected) {
        assert_eq!(found["node"], node.name());
        let items = found["report"]["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{items:?}");
        assert_eq!(items[0]["pod"], format!("{NAMESPACE}/{pod}"));
        assert_eq!(items[0]["node"], node.name());
    }

    // A part of the pod's name is enough; the exit code is that of the command.
    for (node, pod) in rig.nodes.iter().zip(&pods) {
        let part = pod.split('-').next().unwrap();
        let explained = run(&["explain", "-n", NAMESPACE, part, "-o", "json"]);
        let explained = report(&explained, 1);
        assert_eq!(explained["name"], *pod);
        assert_eq!(explained["node"], node.name());
        assert_eq!(explained["stuck"]["containers"], json!(["istio-proxy"]));
    }
    let port = format!(":15000{ADMIN_PATH}");
    let far = format!("{NAMESPACE}/{}", pods[1]);
    // Envoy may still be starting when the pod is stuck.
    let info = until("a response of Envoy's admin port", || {
        Some(run(&["request", &far, "GET", &port])).filter(|info| info.status.success())
    });
    let body = String::from_utf8_lossy(&info.stdout).into_owned();
    assert!(body.contains("command_line_options"), "{body}");
    captures_the_request(&kubeconfig, &far, &port);
    each_node_reports_its_status(&kubeconfig, &rig);
    costs_are_added_up(&kubeconfig, &rig.nodes);
}

/// Standard output of the capture is the packets of the pod on the other node.
fn captures_the_request(kubeconfig: &Path, pod: &str, port: &str) {
    let words = ["capture", pod, "--port", "15000", "--duration", "60s"];
    let words = [&words[..], &["--count", "8", "-w", "-"]].concat();
    let captured = thread::scope(|scope| {
        let capture = scope.spawn(|| run(kubeconfig, &words));
        until("the end of the capture", || {
            let requested = run(kubeconfig, &["request", pod, "GET", port]);
            assert!(requested.status.success(), "{}", errors(&requested));
            capture.is_finished().then_some(())
        });
        capture.join().unwrap()
    });
    assert!(captured.status.success(), "{}", errors(&captured));
    assert_eq!(captured.stdout[..4], PCAPNG);
    let request = format!("GET {ADMIN_PATH} HTTP/1.1");
    let mut parts = captured.stdout.windows(request.len());
    assert!(parts.any(|part| part == request.as_bytes()), "no {request}");
}

fn each_node_reports_its_status(kubeconfig: &Path, rig: &Rig) {
    let all = ["status", "--all-nodes", "-o", "json"];
    let statuses = report(&run(kubeconfig, &all), 0);
    let statuses = statuses.as_array().unwrap();
    assert_eq!(statuses.len(), rig.nodes.len());
    for (status, node) in statuses.iter().zip(&rig.nodes) {
        assert_eq!(status["node"], node.name());
        assert_eq!(status["report"]["node"], node.name());
        assert_eq!(status["report"]["agent"]["ready"], true, "{status}");
    }
    // Without a node the command fails and names both nodes.
    let unclear = run(kubeconfig, &["status"]);
    assert_eq!(unclear.status.code(), Some(2), "{}", errors(&unclear));
    for node in &rig.nodes {
        assert!(
            errors(&unclear).contains(node.name()),
            "{}",
            errors(&unclear)
        );
    }
}

/// The pods of a namespace, by the agents of some nodes.
fn cost(kubeconfig: &Path, nodes: &[&str]) -> (Vec<String>, [u64; 2]) {
    let words = [&["report", "-n", NAMESPACE, "-o", "json"], nodes].concat();
    let report = report(&run(kubeconfig, &words), 0);
    let nodes = report["nodes"].as_array().unwrap().iter();
    let nodes = nodes.map(|node| node["node"].as_str().unwrap().to_owned());
    let items = report["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{report}");
    let count = |field: &str| items[0][field].as_u64().unwrap();
    (nodes.collect(), [count("pods"), count("running")])
}

fn costs_are_added_up(kubeconfig: &Path, nodes: &[Member; 2]) {
    let [one, two] = nodes
        .each_ref()
        .map(|node| cost(kubeconfig, &["--node", node.name()]));
    let (names, sum) = cost(kubeconfig, &["--all-nodes"]);
    assert_eq!(names, [&one.0[..], &two.0].concat());
    assert_eq!(names, nodes.each_ref().map(Member::name));
    assert!(one.1[1] >= 1 && two.1[1] >= 1, "{one:?} {two:?}");
    assert_eq!(sum, [one.1[0] + two.1[0], one.1[1] + two.1[1]]);
}

#[test]
fn a_missing_right_is_named_for_a_pod_and_for_all_nodes() {
    let Some(rig) = Rig::open() else {
        return;
    };
    let [_, pod] = stuck_pods(&rig, ["rights-near", "rights-far"]);
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = user(&rig, folder.path());
    let explain = || run(&kubeconfig, &["explain", "-n", NAMESPACE, &pod]);
    let refused = |ran: Output, right: &str| {
        assert_eq!(ran.status.code(), Some(3), "{}", errors(&ran));
        let text = format!("missing permission: {right}");
        assert!(errors(&ran).contains(&text), "{}", errors(&ran));
        errors(&ran)
    };
    refused(explain(), &format!("get pods in namespace {NAMESPACE}"));
    let all = || run(&kubeconfig, &["stuck", "--all-nodes", "-n", NAMESPACE]);
    refused(all(), &format!("list pods in namespace {USHER}"));

    let _view = Binding::new(&rig, "clusterrolebinding", &["--clusterrole=view"]);
    until("the role to apply", || {
        errors(&explain()).contains("pods/exec").then_some(())
    });
    let exec = format!("get and create pods/exec in namespace {USHER}");
    refused(explain(), &exec);
    let text = refused(all(), &exec);
    for node in &rig.nodes {
        let line = format!("{}: missing permission", node.name());
        assert!(text.contains(&line), "{text}");
    }

    // With the role of docs/kubectl.md the same user gets an answer.
    let role = ["--verb=get,create", "--resource=pods/exec"];
    let _role = Binding::role(&rig, &role);
    until("the role to apply", || {
        (explain().status.code() == Some(1)).then_some(())
    });
    assert_eq!(all().status.code(), Some(1), "{}", errors(&all()));
}

/// A kubeconfig of a service account without rights.
fn user(rig: &Rig, folder: &Path) -> PathBuf {
    let token = ["create", "token", "default", "-n", NAMESPACE];
    let token = rig.cluster.kubectl(&token).unwrap();
    let config = fs::read_to_string(rig.cluster.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["users"][0]["user"] = json!({"token": token.trim()});
    let kubeconfig = folder.join("kubeconfig");
    fs::write(&kubeconfig, config.to_string()).unwrap();
    kubeconfig
}

/// A binding to the user's service account, deleted on drop.
struct Binding<'rig> {
    rig: &'rig Rig,
    kind: &'static str,
}

impl<'rig> Binding<'rig> {
    const NAME: &'static str = "pair-user";

    fn new(rig: &'rig Rig, kind: &'static str, role: &[&str]) -> Self {
        let binding = Self { rig, kind };
        rig.cluster.kubectl(&deletion(kind)).unwrap();
        let subject = format!("--serviceaccount={NAMESPACE}:default");
        let create = ["-n", USHER, "create", kind, Self::NAME, &subject];
        rig.cluster.kubectl(&[&create, role].concat()).unwrap();
        binding
    }

    /// A role in usher's namespace, and the binding to it.
    fn role(rig: &'rig Rig, rules: &[&str]) -> Self {
        rig.cluster.kubectl(&deletion("role")).unwrap();
        let create = ["-n", USHER, "create", "role", Self::NAME];
        rig.cluster.kubectl(&[&create, rules].concat()).unwrap();
        Self::new(rig, "rolebinding", &["--role", Self::NAME])
    }
}

impl Drop for Binding<'_> {
    fn drop(&mut self) {
        // During a panic a second panic would hide the first.
        drop(self.rig.cluster.kubectl(&deletion(self.kind)));
    }
}

/// Deletes the object of this kind that a [`Binding`] creates, if it exists.
const fn deletion(kind: &str) -> [&str; 6] {
    [
        "-n",
        USHER,
        "delete",
        kind,
        Binding::NAME,
        "--ignore-not-found",
    ]
}
