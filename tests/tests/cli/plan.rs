//! `usher plan`.

use std::path::PathBuf;

use usher_tests::golden;
use usher_tests::synthetic::catalog::cloud_sql;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::kubelet::Behaviour;
use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{Agent, ContainerSpec, PodSpec};

use crate::{answer, enforcing, json, known, run};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/golden")
        .join(name)
}

#[test]
fn same_with_and_without_an_agent() {
    let Some(node) = enforcing() else { return };
    let spec = cloud_sql::v2()
        .job("planned")
        .with(ContainerSpec::istio(Manner::Quit));
    let pod = node.run(&spec);
    let agent = Agent::start(&node);
    known(&node);
    let text = answer(&node, &["plan", "planned"]);
    golden::check(&file("plan.txt"), &text, &[]);
    let with = answer(&node, &["plan", "planned", "-o", "json"]);
    golden::check(&file("plan.json"), &with, &[]);
    let what_if = json(&node, &["plan", "planned", "--mode", "observe"]);
    assert_eq!(
        what_if["quit"]["because"][0],
        "the mode is observe: it is only recorded"
    );
    pod.finish("app", 0);
    agent.wait_for("gave-up", &pod.name());
    // Until then the exit code of the proxy is unknown, and with it whether the pod failed.
    agent.wait_for("sidecar-ended", &pod.name());
    let ended = json(&node, &["plan", "planned"]);
    assert_eq!(ended["quit"]["sidecars"][0]["ladder"][0]["allowed"], "no");
    agent.kill();
    let ran = run(&node, &["plan", "planned"]);
    assert!(ran.stderr.contains("no agent answers"), "{ran:?}");
    let without = json(&node, &["plan", "planned"]);
    assert_eq!(without["from"], "node");
    // The same core, with the same knowledge of the sidecars.
    let ladder = |plan: &serde_json::Value| plan["quit"]["sidecars"][0]["ladder"].clone();
    // Now only the kubelet knows the app's exit code, once it has learned of the exit.
    eventually("the same ladder", || {
        ladder(&json(&node, &["plan", "planned"])) == ladder(&ended)
    });
    assert_eq!(without["quit"]["mode"], "enforce");
}

#[test]
fn pod_that_the_kubelet_has_not_listed() {
    let Some(node) = enforcing() else { return };
    let pod = node.run(&PodSpec::job("unlisted"));
    node.kubelet().behave(Behaviour::Status(500));
    let ran = run(&node, &["plan", pod.uid()]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(
        ran.stderr.contains("the kubelet does not list the pod"),
        "{ran:?}"
    );
    node.kubelet().behave(Behaviour::Ok);
    eventually("its plan", || {
        run(&node, &["plan", pod.uid()]).code == Some(0)
    });
}
