//! Namespaces that the agent cannot read, and that may opt out.

use usher_tests::privilege;
use usher_tests::synthetic::{Agent, ApiServer, Node, Pod, PodSpec, usher};

use crate::{SIDECAR, finish_and_quit};

const OPTED_OUT: &[(&str, &str)] = &[("usher.dev/quit", "false")];
const GET: &str = "get namespaces";

fn start(node: &Node, server: &ApiServer) -> Agent {
    let agent = Agent::start_with_api(node, server, &[]);
    let labels = "capability=\"quit\",mode=\"enforce\"";
    agent.wait_metric("usher_mode", labels, |mode| mode > 0.5);
    agent
}

fn enforcing() -> ApiServer {
    let server = ApiServer::start();
    server.annotate(&[("usher.dev/mode", "enforce")]);
    server
}

fn run_in(node: &Node, namespace: &str, name: &str) -> Pod {
    let mut spec = PodSpec::job(name);
    spec.namespace = namespace.to_owned();
    node.run(&spec)
}

/// The number of rejected requests.
fn wait_forbidden(agent: &Agent, count: f64) {
    let labels = "result=\"forbidden\"";
    agent.wait_metric("usher_namespace_requests_total", labels, |requests| {
        requests >= count
    });
}

/// The end of the first warning about a Namespace that cannot be read.
fn effect(agent: &Agent, namespace: &str) -> String {
    agent.log().wait("a warning", |line| {
        let message = line["message"].as_str()?;
        let is_it = line["level"] == "WARN" && line["namespace"] == namespace;
        let (_, effect) = message.split_once("could not get the Namespace, retrying: ")?;
        is_it.then(|| effect.to_owned())
    })
}

/// The check of the agent's Namespaces by the command-line tool.
fn check(node: &Node) -> serde_json::Value {
    let ran = usher::on(node, &["check", "-o", "json"]);
    let checks: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let all = checks["checks"].as_array().unwrap();
    let found = all.iter().find(|check| check["id"] == "agent-namespaces");
    found.unwrap().clone()
}

#[test]
fn unreadable_namespace_keeps_its_opt_out() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let server = enforcing();
    server.annotate_namespace("default", OPTED_OUT);
    server.annotate_namespace("other", OPTED_OUT);
    let agent = start(&node, &server);
    let before = node.run(&PodSpec::job("before"));
    before.finish("app", 0);
    agent.wait_for("skipped", &before.name());
    finish_and_quit(&agent, &run_in(&node, "open", "open-before"));
    agent.kill();
    server.forbid(GET);
    let agent = start(&node, &server);
    let after = node.run(&PodSpec::job("after"));
    after.finish("app", 0);
    agent.wait_for("skipped", &after.name());
    // A Namespace that was never read may opt out, as this one does.
    let other = run_in(&node, "other", "other");
    other.finish("app", 0);
    finish_and_quit(&agent, &run_in(&node, "open", "open-after"));
    assert_eq!(
        effect(&agent, "default"),
        "its last known annotations apply"
    );
    assert_eq!(
        effect(&agent, "other"),
        "its pods wait until it can be read"
    );
    let note = server.wait_events("an Event", |events| {
        let mut all = events.iter();
        let found = all.find(|event| event["reason"] == "NamespaceReadFailed")?;
        found["note"].as_str().map(str::to_owned)
    });
    assert!(note.contains("can-i get namespaces"), "{note}");
    let failed = check(&node);
    assert_eq!(failed["outcome"], "failed", "{failed:#}");
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("other (its pods wait"), "{message}");
    assert!(
        agent
            .decisions(&other.name())
            .iter()
            .all(|kind| kind == "waiting"),
        "{:?}",
        agent.decisions(&other.name())
    );
    server.allow(GET);
    agent.wait_for("skipped", &other.name());
    agent.kill();
    for pod in [before, after, other] {
        assert!(pod.requests(SIDECAR).is_empty());
    }
}

/// An API server that has just started rejects every request for a moment.
#[test]
fn api_server_that_has_just_started() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let server = enforcing();
    server.annotate_namespace("opted-out", OPTED_OUT);
    server.forbid(GET);
    let agent = start(&node, &server);
    let opted_out = run_in(&node, "opted-out", "opted-out");
    opted_out.finish("app", 0);
    let ordinary = run_in(&node, "ordinary", "ordinary");
    wait_forbidden(&agent, 2.0);
    server.allow(GET);
    finish_and_quit(&agent, &ordinary);
    agent.wait_for("skipped", &opted_out.name());
    assert_eq!(check(&node)["outcome"], "ok");
    agent.kill();
    assert!(opted_out.requests(SIDECAR).is_empty());
    // On a slow machine a Namespace may have failed more often, and the third failure is reported.
    let requests = server.requests_for(GET);
    let is_brief = ["opted-out", "ordinary"].iter().all(|name| {
        let path = format!("/api/v1/namespaces/{name}");
        requests.iter().filter(|one| one.path == path).count() <= 3
    });
    let events = server.events();
    let reported = |event: &serde_json::Value| event["reason"] == "NamespaceReadFailed";
    assert!(!is_brief || !events.iter().any(reported), "{events:#?}");
}

/// A Namespace that was deleted before its pods keeps its last values for them; a static pod's may never have existed.
#[test]
fn namespace_that_does_not_exist() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let server = enforcing();
    server.annotate_namespace("deleted", OPTED_OUT);
    server.delete_namespace("static");
    let agent = start(&node, &server);
    let before = run_in(&node, "deleted", "before");
    before.finish("app", 0);
    agent.wait_for("skipped", &before.name());
    agent.kill();
    server.delete_namespace("deleted");
    let agent = start(&node, &server);
    let after = run_in(&node, "deleted", "after");
    after.finish("app", 0);
    finish_and_quit(&agent, &run_in(&node, "static", "static"));
    agent.wait_for("skipped", &after.name());
    agent.kill();
    for pod in [before, after] {
        assert!(pod.requests(SIDECAR).is_empty());
    }
}
