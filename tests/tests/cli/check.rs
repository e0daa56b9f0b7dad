//! `usher check`: one broken thing at a time, and the command that fixes it.

mod problems;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use usher_tests::privilege;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::kubelet::Behaviour;
use usher_tests::synthetic::wire::{Capture, Client, Listen};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, PodSpec, machine, program, usher};

use crate::{enforcing, golden, run};

const LIST: &str = r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"bridge"}]}"#;

/// A host's network directories, alongside the node's.
struct Host {
    networks: PathBuf,
    plugins: PathBuf,
}

impl Host {
    fn new(node: &Node) -> Self {
        let top = node.run_dir().with_file_name("host");
        let (networks, plugins) = (top.join("net.d"), top.join("bin"));
        for directory in [&networks, &plugins] {
            fs::create_dir_all(directory).unwrap();
        }
        let host = Self { networks, plugins };
        fs::write(host.plugins.join("bridge"), "").unwrap();
        host.write("10-net.conflist", LIST);
        host
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.networks.join(name), text).unwrap();
    }

    fn flags(&self) -> Vec<String> {
        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let binary = program::beside_this("usher-cni").unwrap();
        vec![
            flag("cni-conf-dir", &self.networks),
            flag("cni-bin-dir", &self.plugins),
            flag("cni-binary", &binary),
        ]
    }

    /// All checks, and the exit code of the program.
    fn check(&self, node: &Node, arguments: &[&str]) -> (Option<i32>, Value) {
        let flags = self.flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let ran = run(
            node,
            &[&["check", "-o", "json"], arguments, &flags].concat(),
        );
        let checks =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        (ran.code, checks)
    }
}

/// One check.
fn of<'a>(checks: &'a Value, id: &str) -> &'a Value {
    let all = checks["checks"].as_array().unwrap();
    let found = all.iter().find(|check| check["id"] == id);
    found.unwrap_or_else(|| panic!("no {id} in {checks:#}"))
}

#[track_caller]
fn expect(checks: &Value, id: &str, outcome: &str, fix: &str) {
    let check = of(checks, id);
    assert_eq!(check["outcome"], outcome, "{check:#}");
    let words = check["fix"].as_str().unwrap_or_default();
    assert!(words.contains(fix), "{check:#}");
}

#[test]
fn node_without_an_agent() {
    let Some(node) = enforcing() else { return };
    let host = Host::new(&node);
    let _pod = node.run(&PodSpec::job("there"));
    let (code, checks) = host.check(&node, &["--pre"]);
    assert_eq!(code, Some(0), "{checks:#}");
    assert_eq!(
        (&checks["kind"], &checks["apiVersion"]),
        (&"Checks".into(), &"usher.dev/cli/v1".into())
    );
    for id in [
        "kernel-netns",
        "kernel-table",
        "privileges-capabilities",
        "node-cgroups",
        "cni-first-file",
        "kubelet-pods",
    ] {
        expect(&checks, id, "ok", "");
    }
    expect(&checks, "cni-entry", "skipped", "");
    assert_eq!(
        of(&checks, "cluster-sidecars")["message"],
        "istio in 1 of 1 pods"
    );
    let agent = checks["checks"].as_array().unwrap().iter();
    assert!(
        agent
            .map(|check| &check["category"])
            .all(|category| category != "agent")
    );

    let (code, checks) = host.check(&node, &[]);
    assert_eq!(code, Some(1), "{checks:#}");
    expect(&checks, "agent-runs", "failed", "kubectl get pods -n usher");
    expect(&checks, "agent-ready", "skipped", "");
}

/// The node's own checks are needed most when its agent hangs.
#[test]
fn node_whose_agent_does_not_answer() {
    let Some(node) = enforcing() else { return };
    let host = Host::new(&node);
    let agent = Agent::start_with(&node, &host.flags());
    agent.signal(Signal::SIGSTOP);
    let (code, checks) = host.check(&node, &[]);
    agent.signal(Signal::SIGCONT);
    assert_eq!(code, Some(1), "{checks:#}");
    let message = of(&checks, "agent-runs")["message"].as_str().unwrap();
    assert!(message.contains("no response within 5s"), "{checks:#}");
    expect(&checks, "agent-runs", "failed", "kubectl logs -n usher");
    expect(&checks, "leftover-tables", "skipped", "");
    expect(&checks, "kernel-release", "ok", "");
}

#[test]
fn node_with_an_agent() {
    // The check reads tables in all network namespaces of the machine.
    if !privilege::granted() || !machine::entered("check::node_with_an_agent") {
        return;
    }
    let Some(node) = enforcing() else { return };
    let host = Host::new(&node);
    let agent = Agent::start_with(&node, &host.flags());
    agent.wait_metric("usher_cni_installed", "", |installed| installed == 1.0);
    agent.wait_metric("usher_kubelet_requests_total", "result=\"ok\"", |count| {
        count > 0.0
    });
    agent.wait_metric("usher_worker_up", "", |up| up == 1.0);
    let (code, checks) = host.check(&node, &[]);
    assert_eq!(code, Some(0), "{checks:#}");
    assert_eq!(checks["count"]["failed"], 0);
    for id in [
        "agent-runs",
        "agent-ready",
        "agent-versions",
        "agent-modes",
        "agent-kubelet",
        "cni-entry",
        "leftover-tables",
    ] {
        expect(&checks, id, "ok", "");
    }
    // Kernels and privileges differ between machines.
    let all = checks["checks"].as_array().unwrap().iter();
    let ours = all.filter(|check| {
        ["cni", "kubelet", "agent", "leftovers"].contains(&check["category"].as_str().unwrap())
    });
    let line =
        |check: &Value| format!("{} {}: {}", check["outcome"], check["id"], check["message"]);
    let lines: Vec<String> = ours.map(line).collect();
    let names = [
        (host.networks.display().to_string(), "CONF-DIR"),
        (host.plugins.display().to_string(), "BIN-DIR"),
        (node.kubelet().url(), "KUBELET"),
    ];
    let names: Vec<(&str, &str)> = names
        .iter()
        .map(|(value, name)| (value.as_str(), *name))
        .collect();
    golden("check.txt", &(lines.join("\n") + "\n"), &names);
}

/// The program without some of root's capabilities, as in a container that lacks them.
fn without(node: &Node, capabilities: &str, arguments: &[&str]) -> Command {
    let ordinary = usher::command_on(node);
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set", capabilities, "--inh-caps", capabilities])
        .arg(ordinary.get_program())
        .args(arguments)
        .env_clear();
    for (name, value) in ordinary.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

#[test]
fn missing_capability_is_named_with_its_purpose() {
    if !privilege::granted_with(&["setpriv"]) {
        return;
    }
    let node = Node::new();
    for (name, dropped, also) in [
        ("NET_ADMIN", "-net_admin", "kernel-table"),
        ("SYS_ADMIN", "-sys_admin", "kernel-netns"),
        ("NET_RAW", "-net_raw", ""),
    ] {
        let ran = without(&node, dropped, &["check", "--pre", "-o", "json"])
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&ran.stdout);
        let checks: Value =
            serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        assert_eq!(ran.status.code(), Some(1), "{stdout}");
        expect(
            &checks,
            "privileges-capabilities",
            "failed",
            &format!("capabilities.add: [{name}]"),
        );
        if !also.is_empty() {
            expect(&checks, also, "failed", "CAP_");
        }
    }
}

#[test]
fn text_marks_results_and_lists_only_problems_on_request() {
    let Some(node) = enforcing() else { return };
    let host = Host::new(&node);
    node.kubelet().behave(Behaviour::Status(403));
    let flags = host.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let all = run(&node, &[&["check", "--pre"], &flags[..]].concat());
    assert!(
        all.stdout
            .contains("\nkubelet\n  ✗ the kubelet lists its pods: "),
        "{all:?}"
    );
    assert!(
        all.stdout
            .contains("      fix:  the ClusterRole usher needs"),
        "{all:?}"
    );
    assert!(
        all.stdout
            .contains("  ✓ a network namespace can be created"),
        "{all:?}"
    );
    let short = run(
        &node,
        &[&["check", "--pre", "--problems"], &flags[..]].concat(),
    );
    assert!(
        short.stdout.contains("✗ the kubelet lists its pods"),
        "{short:?}"
    );
    assert!(!short.stdout.contains('✓'), "{short:?}");
    let last = |text: &str| text.lines().last().map(str::to_owned);
    assert_eq!(last(&all.stdout), last(&short.stdout));
    assert_eq!((all.code, short.code), (Some(1), Some(1)));
}

#[test]
fn orphaned_table_is_reported() {
    let is_granted = privilege::granted_with(&["nft", "nsenter"]);
    if !is_granted || !machine::entered("check::orphaned_table_is_reported") {
        return;
    }
    let Some(node) = enforcing() else { return };
    let host = Host::new(&node);
    let agent = Agent::start_with(&node, &host.flags());
    let spec = PodSpec::new("held")
        .with(ContainerSpec::client("app", Client::to("10.7.7.7:8080")))
        .with(mesh::proxy(Listen::OnCommand))
        .captured(Capture::default())
        .announced();
    let pod = node.run(&spec);
    agent.wait_for("hold-armed", &pod.name());
    let (_, checks) = host.check(&node, &[]);
    expect(&checks, "leftover-tables", "ok", "");
    agent.kill();
    let (code, checks) = host.check(&node, &[]);
    assert_eq!(code, Some(1));
    expect(
        &checks,
        "leftover-tables",
        "warning",
        "usher cleanup --dry-run",
    );
}
