//! The problems of a node that `usher check --pre` finds: its kubelet, network, configuration and directories.

use std::fs;

use usher_tests::synthetic::kubelet::Behaviour;

use super::{Host, expect, of};
use crate::enforcing;

#[test]
fn each_kubelet_problem_is_reported() {
    let Some(node) = enforcing() else { return };
    let host = Host::new(&node);
    for (behaviour, fix) in [
        (
            Behaviour::Status(401),
            "authentication.webhook.enabled: true",
        ),
        (
            Behaviour::Status(403),
            "resources: [nodes/pods], verbs: [get]",
        ),
        (Behaviour::Status(500), "journalctl -u kubelet"),
        (Behaviour::TruncatedJson, "is a kubelet"),
    ] {
        node.kubelet().behave(behaviour);
        let (code, checks) = host.check(&node, &["--pre"]);
        assert_eq!(code, Some(1), "{checks:#}");
        expect(&checks, "kubelet-pods", "failed", fix);
        expect(&checks, "cluster-sidecars", "skipped", "");
    }
    node.kubelet().behave(Behaviour::Ok);
    let (_, checks) = host.check(&node, &["--pre", "--kubelet-token", "/no/such/token"]);
    expect(
        &checks,
        "kubelet-pods",
        "failed",
        "kubectl create token usher",
    );
    let (_, checks) = host.check(&node, &["--pre", "--kubelet", "http://127.0.0.1:1"]);
    expect(
        &checks,
        "kubelet-pods",
        "failed",
        "systemctl status kubelet",
    );
    let (_, checks) = host.check(
        &node,
        &[
            "--pre",
            "--kubelet",
            "https://127.0.0.1:1",
            "--kubelet-ca",
            "/no/such/ca",
        ],
    );
    expect(&checks, "kubelet-pods", "failed", "");
}

#[test]
fn each_network_problem_is_reported() {
    let Some(node) = enforcing() else { return };
    let host = Host::new(&node);
    let with_entry = r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"bridge"},{"type":"usher-cni"},{"type":"late"}]}"#;
    host.write("10-net.conflist", with_entry);
    let (code, checks) = host.check(&node, &["--pre"]);
    assert_eq!(code, Some(0), "{checks:#}");
    expect(
        &checks,
        "cni-entry",
        "warning",
        "kubectl delete pod -n usher POD",
    );
    fs::remove_file(host.plugins.join("bridge")).unwrap();
    let (code, checks) = host.check(&node, &["--pre"]);
    assert_eq!(code, Some(1), "{checks:#}");
    expect(&checks, "cni-bin-dir", "failed", "cni.binDir");
    host.write("05-broken.conflist", "{");
    let (_, checks) = host.check(&node, &["--pre"]);
    expect(
        &checks,
        "cni-first-file",
        "failed",
        "net.d/05-broken.conflist on the node",
    );
    for name in ["05-broken.conflist", "10-net.conflist"] {
        fs::remove_file(host.networks.join(name)).unwrap();
    }
    let (_, checks) = host.check(&node, &["--pre"]);
    expect(&checks, "cni-first-file", "failed", "cni.confDir");
    fs::remove_dir(&host.networks).unwrap();
    fs::remove_dir(&host.plugins).unwrap();
    let (_, checks) = host.check(&node, &["--pre"]);
    expect(&checks, "cni-conf-dir", "failed", "cni.confDir");
    expect(&checks, "cni-bin-dir", "failed", "cni.binDir");
}

#[test]
fn configuration_and_directory_problems_are_reported() {
    let Some(node) = enforcing() else { return };
    let host = Host::new(&node);
    node.configure("defaults:\n  hold: perhaps\n");
    let (code, checks) = host.check(&node, &["--pre"]);
    assert_eq!(code, Some(1), "{checks:#}");
    expect(&checks, "node-configuration", "failed", "correct that line");
    let message = of(&checks, "node-configuration")["message"]
        .as_str()
        .unwrap();
    assert!(
        message.contains("config.yaml:2:9: defaults.hold"),
        "{message}"
    );
    let nowhere = [
        "--pre",
        "--cgroup-root",
        "/proc/self",
        "--run-dir",
        "/proc/self/stat/usher",
        "--bundle-dir",
        "/no/such",
    ];
    let (_, checks) = host.check(&node, &nowhere);
    expect(&checks, "node-cgroups", "failed", "USHER_CGROUP_ROOT");
    expect(
        &checks,
        "node-run-directory",
        "failed",
        "mkdir -p /proc/self/stat/usher",
    );
    expect(&checks, "node-bundles", "warning", "runtime.dir=");
}
