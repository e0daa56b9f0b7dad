//! `usher rules`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use usher_tests::golden;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::wire::{Capture, Listen};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

use crate::{answer, json, privilege, run};

fn held() -> Option<(Node, Agent, Pod)> {
    let node = privilege::granted_with(&["nft", "nsenter"]).then(Node::new)?;
    node.annotate(&[("usher.dev/hold", "enforce")]);
    let agent = Agent::start(&node);
    let spec = PodSpec::new("ruled")
        .with(ContainerSpec::app("app"))
        .with(mesh::proxy(Listen::OnCommand))
        .captured(Capture::default())
        .hold_deadline(Duration::from_secs(600))
        .announced();
    let pod = node.run(&spec);
    agent.wait_for("hold-armed", &pod.name());
    Some((node, agent, pod))
}

/// Runs the program nft in a pod's network namespace.
fn nft(pod: &Pod, words: &[&str]) {
    let done = Command::new("nsenter")
        .arg(format!("--net={}", pod.network_path().display()))
        .arg("nft")
        .args(words)
        .status()
        .unwrap();
    assert!(done.success(), "{words:?}");
}

/// The table as nft prints it.
pub(crate) fn list(pod: &Pod) -> String {
    let listed = Command::new("nsenter")
        .arg(format!("--net={}", pod.network_path().display()))
        .args(["nft", "list", "table", "inet", "usher"])
        .output()
        .unwrap();
    assert!(listed.status.success(), "{listed:?}");
    String::from_utf8(listed.stdout).unwrap()
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/golden")
        .join(name)
}

#[test]
fn rules_list_the_table_and_those_of_others() {
    let Some((node, agent, pod)) = held() else {
        return;
    };
    let text = answer(&node, &["rules", "ruled"]);
    golden::check(&file("rules.txt"), &text, &[]);
    let rules = json(&node, &["rules", "ruled"]);
    assert_eq!(rules["kind"], "Rules");
    assert_eq!(rules["others"][0]["table"], "mesh");
    let listed = list(&pod);
    // Without running timeouts, the program nft prints the same.
    let own = rules["table"]["text"].as_str().unwrap();
    for line in own.lines().filter(|line| !line.contains("elements")) {
        assert!(listed.contains(line.trim()), "{line} is not in {listed}");
    }
    // Tabs and newlines do not change a value in YAML.
    let yaml = answer(&node, &["rules", "ruled", "-o", "yaml"]);
    let yaml: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    assert!(own.contains("\n\t"), "{own}");
    assert_eq!(yaml["table"]["text"], own);
    // The command works without an agent as well.
    agent.kill();
    let again = json(&node, &["rules", "ruled"]);
    assert_eq!(again["table"]["text"], rules["table"]["text"]);
    let ran = run(&node, &["rules", "ruled", "--diff"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
}

#[test]
fn drift_is_reported_and_repaired() {
    let Some((node, agent, pod)) = held() else {
        return;
    };
    let fine = answer(&node, &["rules", "ruled", "--diff"]);
    assert!(fine.contains("no drift: as the agent wants it"), "{fine}");
    for damage in [
        &["delete", "element", "inet", "usher", "held", "{ 15001 }"][..],
        &["flush", "chain", "inet", "usher", "hold"],
        &[
            "add", "rule", "inet", "usher", "hold", "tcp", "dport", "80", "drop",
        ],
        &[
            "add",
            "element",
            "inet",
            "usher",
            "held",
            "{ 9999 timeout 10s }",
        ],
    ] {
        nft(&pod, damage);
        let ran = run(&node, &["rules", "ruled", "--diff"]);
        assert_eq!(ran.code, Some(1), "{damage:?}: {ran:?}");
        assert!(
            ran.stdout.contains("missing: ") || ran.stdout.contains("surplus: "),
            "{ran:?}"
        );
        let dry = answer(&node, &["rules", "ruled", "--fix", "--dry-run"]);
        assert!(dry.contains("(dry run): installs the table again"), "{dry}");
        assert_eq!(run(&node, &["rules", "ruled", "--diff"]).code, Some(1));
        let fixed = answer(&node, &["rules", "ruled", "--fix"]);
        assert!(fixed.contains("installs the table again"), "{fixed}");
        assert_eq!(
            run(&node, &["rules", "ruled", "--diff"]).code,
            Some(0),
            "{damage:?}"
        );
    }
    // The table holds and releases as before.
    pod.send_line("istio-proxy", "listen");
    agent.wait_for("hold-released", &pod.name());
    let none = answer(&node, &["rules", "ruled", "--diff"]);
    assert!(
        none.contains("no table is wanted, and none exists"),
        "{none}"
    );
    // Unwanted rules are removed.
    nft(&pod, &["add", "table", "inet", "usher"]);
    let ran = run(&node, &["rules", "ruled", "--diff"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    answer(&node, &["rules", "ruled", "--fix"]);
    assert_eq!(run(&node, &["rules", "ruled", "--diff"]).code, Some(0));
}
