//! The settings of the Node and of the pod: observe, off, opted out.

use usher_tests::privilege;
use usher_tests::synthetic::{Agent, ApiServer, Node, PodSpec};

use crate::{SIDECAR, enforcing, expect_quit, finish_and_quit, wait_observed, wait_state};

fn touches_nothing(annotations: Option<&[(&str, &str)]>, decision: &str) {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    if let Some(annotations) = annotations {
        node.annotate(annotations);
    }
    let agent = Agent::start(&node);
    // The agent has done all that it does for a pod before it reports the next one.
    let pods = node.run_all(&["one", "two", "three"].map(PodSpec::job));
    for pod in &pods {
        wait_observed(&node, pod);
        pod.finish("app", 0);
        let line = agent.wait_for(decision, &pod.name());
        assert_eq!(line["uid"], pod.uid());
    }
    agent.kill();
    for pod in &pods {
        assert!(pod.requests(SIDECAR).is_empty());
        assert!(pod.end_so_far(SIDECAR).is_none());
    }
}

#[test]
fn observe_is_the_default() {
    touches_nothing(None, "would-quit");
}

#[test]
fn observe() {
    let annotations = [("usher.dev/mode", "observe")];
    touches_nothing(Some(&annotations), "would-quit");
}

#[test]
fn quit_overrides_the_mode() {
    let annotations = [("usher.dev/mode", "enforce"), ("usher.dev/quit", "observe")];
    touches_nothing(Some(&annotations), "would-quit");
}

#[test]
fn invalid_mode_means_observe() {
    let annotations = [("usher.dev/mode", "Enforce!")];
    touches_nothing(Some(&annotations), "would-quit");
}

#[test]
fn off() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    node.annotate(&[("usher.dev/mode", "off")]);
    let agent = Agent::start(&node);
    let labels = "capability=\"quit\",mode=\"off\"";
    agent.wait_metric("usher_mode", labels, |mode| mode > 0.5);
    let pods = node.run_all(&["off", "later"].map(PodSpec::job));
    for pod in &pods {
        pod.finish("app", 0);
        wait_state(&node, pod, "exited");
        assert!(agent.decisions(&pod.name()).is_empty());
    }
    let pod = &pods[0];
    // The sidecar runs when an agent in enforce mode starts.
    agent.kill();
    assert!(pod.requests(SIDECAR).is_empty());
    assert!(pod.end_so_far(SIDECAR).is_none());
    node.annotate(&[("usher.dev/mode", "enforce")]);
    let agent = Agent::start(&node);
    expect_quit(&agent, pod);
}

/// A node that joins needs no annotation.
#[test]
fn configuration_sets_the_mode_and_the_node_overrides_it() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let server = ApiServer::start();
    node.configure("mode: enforce\n");
    let agent = Agent::start_with_api(&node, &server, &[]);
    let mode = |mode: &str| {
        let labels = format!("capability=\"quit\",mode=\"{mode}\"");
        agent.wait_metric("usher_mode", &labels, |is_set| is_set > 0.5);
    };
    mode("enforce");
    finish_and_quit(&agent, &node.run(&PodSpec::job("configured")));

    server.annotate(&[("usher.dev/mode", "observe")]);
    mode("observe");
    let observed = node.run(&PodSpec::job("annotated"));
    observed.finish("app", 0);
    agent.wait_for("would-quit", &observed.name());
    server.annotate(&[]);
    expect_quit(&agent, &observed);

    server.label(&[("usher.dev/quit", "off")]);
    mode("off");
    server.label(&[]);
    mode("enforce");
    node.configure("mode: enforce\nmodes: {quit: off}\n");
    mode("off");
    server.label(&[("usher.dev/mode", "enforce")]);
    finish_and_quit(&agent, &node.run(&PodSpec::job("labelled")));
}

#[test]
fn unread_node_is_observed() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    node.configure("mode: enforce\n");
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("unread"));
    pod.finish("app", 0);
    agent.wait_for("would-quit", &pod.name());
    agent.kill();
    assert!(pod.requests(SIDECAR).is_empty());
    node.annotate(&[]);
    expect_quit(&Agent::start(&node), &pod);
}

#[test]
fn opted_out_pod_is_left_alone() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let out = node.run(&PodSpec::job("out").annotation("usher.dev/quit", "false"));
    out.finish("app", 0);
    agent.wait_for("skipped", &out.name());
    let other = node.run(&PodSpec::job("in").annotation("usher.dev/quit", "true"));
    finish_and_quit(&agent, &other);
    agent.kill();
    assert!(out.requests(SIDECAR).is_empty());
    assert!(out.end_so_far(SIDECAR).is_none());
}

#[test]
fn invalid_annotation_is_reported_and_ignored() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("typo").annotation("usher.dev/quit", "fasle"));
    finish_and_quit(&agent, &pod);
    let line = agent.wait_for("invalid-annotation", &pod.name());
    let reason = line["reason"].as_str().unwrap();
    assert!(
        reason.contains("usher.dev/quit") && reason.contains("fasle"),
        "{reason}"
    );
}

#[test]
fn terminating_pod_is_left_to_the_kubelet() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("deleted"));
    pod.mark_deleted();
    // A new pod makes the agent read the list, with the deletion.
    let other = node.run(&PodSpec::job("other"));
    other.finish("app", 0);
    expect_quit(&agent, &other);
    pod.finish("app", 0);
    agent.wait_for("skipped", &pod.name());
    agent.kill();
    assert!(pod.requests(SIDECAR).is_empty());
}
