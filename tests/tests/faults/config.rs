//! The configuration file: added, changed, broken.

use std::time::{Duration, Instant};

use usher_tests::privilege;
use usher_tests::synthetic::wire::{Listener, Manner, Sidecar};
use usher_tests::synthetic::{Agent, ApiServer, ContainerSpec, Node, PodSpec};

use crate::{SIDECAR, enforcing, expect_quit, finish_and_quit};

const RECIPE: &str = "
recipes:
  - name: shipper
    stage: logs
    recognize:
      - image: [acme/shipper]
    quit:
      - post: {port: 4000, path: /stop}
        code: 0
";

/// A pod with a log shipper that no built-in recipe knows.
fn shipping(name: &str) -> PodSpec {
    let sidecar = Sidecar {
        listeners: vec![Listener::mannered(4000, Manner::Quit)],
        ..Sidecar::default()
    };
    let shipper = ContainerSpec::sidecar("shipper", "registry.example/acme/shipper:3", sidecar);
    PodSpec::beside_app(name, shipper)
}

fn configured(node: &Node, text: &str) -> Agent {
    node.configure(text);
    Agent::start(node)
}

#[test]
fn added_recipe_works_at_once() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&shipping("waiting"));
    pod.finish("app", 0);
    let other = node.run(&PodSpec::job("other"));
    finish_and_quit(&agent, &other);
    assert!(pod.requests("shipper").is_empty(), "it is an app");
    // No other event follows, and the next list of pods is due after five minutes.
    node.configure(RECIPE);
    assert_eq!(pod.request("shipper").line, "POST /stop HTTP/1.1");
    assert_eq!(pod.ended("shipper").code(), 0);
    agent.wait_for("sidecar-ended", &pod.name());
}

#[test]
fn broken_file_is_rejected_and_the_last_good_one_stays() {
    let Some(node) = enforcing() else { return };
    let agent = configured(&node, RECIPE);
    agent.wait_metric("usher_config_valid", "", |valid| valid == 1.0);
    node.configure("recipes:\n  - name: shipper\n    recognizes: []\n");
    let line = agent.log().wait("the rejection", |line| {
        (line["message"] == "kept the old configuration").then(|| line.clone())
    });
    let error = line["error"].as_str().unwrap();
    let expected = ":3:5: recipes[0].recognizes: unknown field `recognizes`";
    assert!(error.contains(expected), "{error}");
    let file = node.config_file();
    assert!(error.contains(file.to_str().unwrap()), "{error}");
    assert_eq!(agent.metric("usher_config_valid", ""), 0.0);
    assert_eq!(
        agent.metric("usher_config_reloads_total", "result=\"rejected\""),
        1.0
    );
    let pod = node.run(&shipping("still"));
    pod.finish("app", 0);
    assert_eq!(pod.ended("shipper").code(), 0);
    node.configure(RECIPE);
    agent.wait_metric("usher_config_valid", "", |valid| valid == 1.0);
}

#[test]
fn broken_at_start_observes_until_fixed() {
    let Some(node) = enforcing() else { return };
    let agent = configured(&node, "excludedNamespaces: kube-system\n");
    let pod = node.run(&PodSpec::job("waiting"));
    pod.finish("app", 0);
    agent.wait_for("would-quit", &pod.name());
    assert!(pod.requests(SIDECAR).is_empty());
    node.configure("excludedNamespaces: [kube-system]\n");
    expect_quit(&agent, &pod);
}

#[test]
fn broken_at_start_uses_the_last_good_one() {
    let Some(node) = enforcing() else { return };
    let agent = configured(&node, "excludedNamespaces: [left]\n");
    agent.wait_metric("usher_config_valid", "", |valid| valid == 1.0);
    agent.kill();
    let agent = configured(&node, "excludedNamespaces: [\n");
    let mut left = PodSpec::job("left");
    left.namespace = "left".to_owned();
    let left = node.run(&left);
    left.finish("app", 0);
    let pod = node.run(&PodSpec::job("report"));
    finish_and_quit(&agent, &pod);
    assert!(left.requests(SIDECAR).is_empty());
    assert_eq!(agent.metric("usher_config_valid", ""), 0.0);
}

/// A rollback: the earlier configuration neither enforces nor excludes. Its mode applies before its end of the exclusion.
#[test]
fn mode_and_exclusions_change_together() {
    let Some(node) = privilege::granted().then(Node::new) else {
        return;
    };
    let server = ApiServer::start();
    let settings = ["excludedNamespaces: [left]", "defaults: {quit: false}"];
    for (number, before) in settings.into_iter().enumerate() {
        node.configure(&format!("mode: enforce\n{before}\n"));
        let agent = Agent::start_with_api(&node, &server, &[]);
        let mut left = PodSpec::job(&format!("left-{number}"));
        left.namespace = "left".to_owned();
        let left = node.run(&left);
        left.finish("app", 0);
        // Its end is processed before that of the next pod.
        let asked = PodSpec::job(&format!("asked-{number}")).annotation("usher.dev/quit", "true");
        finish_and_quit(&agent, &node.run(&asked));
        assert!(left.requests(SIDECAR).is_empty());
        node.configure("mode: observe\n");
        agent.wait_for("would-quit", &left.name());
        assert!(left.requests(SIDECAR).is_empty(), "{before}");
        agent.kill();
    }
}

/// A deleted ConfigMap does not include the namespaces that it excluded, until the agent restarts.
#[test]
fn deleted_file_is_rejected_and_the_last_good_one_stays() {
    let Some(node) = enforcing() else { return };
    let agent = configured(&node, "excludedNamespaces: [left]\n");
    agent.wait_metric("usher_config_valid", "", |valid| valid == 1.0);
    node.delete_configuration();
    agent.wait_metric("usher_config_valid", "", |valid| valid == 0.0);
    let left = |name: &str| {
        let mut spec = PodSpec::job(name);
        spec.namespace = "left".to_owned();
        let pod = node.run(&spec);
        pod.finish("app", 0);
        pod
    };
    let before = left("before");
    finish_and_quit(&agent, &node.run(&PodSpec::job("first")));
    assert_eq!(agent.metric("usher_config_valid", ""), 0.0);
    assert!(before.requests(SIDECAR).is_empty());
    // An empty file sets the defaults.
    node.configure("");
    expect_quit(&agent, &before);
    agent.wait_metric("usher_config_valid", "", |valid| valid == 1.0);
}

#[test]
fn agent_that_starts_without_a_file_uses_the_defaults() {
    let Some(node) = enforcing() else { return };
    let agent = configured(&node, "excludedNamespaces: [left]\n");
    agent.wait_metric("usher_config_valid", "", |valid| valid == 1.0);
    agent.kill();
    node.delete_configuration();
    let agent = Agent::start(&node);
    let mut spec = PodSpec::job("left");
    spec.namespace = "left".to_owned();
    finish_and_quit(&agent, &node.run(&spec));
}

#[test]
fn defaults_and_annotations_tune() {
    let Some(node) = enforcing() else { return };
    let agent = configured(&node, "defaults: {quit: false}\n");
    let left = node.run(&PodSpec::job("left"));
    left.finish("app", 0);
    agent.wait_for("skipped", &left.name());
    let pod = node.run(&PodSpec::job("asked").annotation("usher.dev/quit", "true"));
    finish_and_quit(&agent, &pod);
    let delay = Duration::from_millis(400);
    let late = PodSpec::job("late")
        .annotation("usher.dev/quit", "true")
        .annotation("usher.dev/quit-delay", "400ms");
    let late = node.run(&late);
    let ended = Instant::now();
    late.finish("app", 0);
    expect_quit(&agent, &late);
    assert!(ended.elapsed() >= delay, "{:?}", ended.elapsed());
    let bad = PodSpec::job("bad").annotation("usher.dev/quit-delay", "soon");
    let bad = node.run(&bad);
    let line = agent.wait_for("invalid-annotation", &bad.name());
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains("usher.dev/quit-delay") && reason.contains("soon"));
    assert!(left.requests(SIDECAR).is_empty());
}
