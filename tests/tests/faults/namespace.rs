//! The permission to read Namespaces is revoked.

use usher_tests::privilege;
use usher_tests::synthetic::{Agent, ApiServer, Node, PodSpec};

use crate::{SIDECAR, finish_and_quit};

fn start(node: &Node, server: &ApiServer) -> Agent {
    let agent = Agent::start_with_api(node, server, &[]);
    let labels = "capability=\"quit\",mode=\"enforce\"";
    agent.wait_metric("usher_mode", labels, |mode| mode > 0.5);
    agent
}

#[test]
fn unreadable_namespace_keeps_its_opt_out() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let server = ApiServer::start();
    server.annotate(&[("usher.dev/mode", "enforce")]);
    server.annotate_namespace("default", &[("usher.dev/quit", "false")]);
    let agent = start(&node, &server);
    let before = node.run(&PodSpec::job("before"));
    before.finish("app", 0);
    agent.wait_for("skipped", &before.name());
    agent.kill();
    server.forbid("get namespaces");
    let agent = start(&node, &server);
    let after = node.run(&PodSpec::job("after"));
    after.finish("app", 0);
    agent.wait_for("skipped", &after.name());
    // A Namespace that was never read has no setting.
    let mut other = PodSpec::job("other");
    other.namespace = "other".to_owned();
    finish_and_quit(&agent, &node.run(&other));
    let logged = |text: &str| {
        let is_it = |line: &&serde_json::Value| {
            line["message"]
                .as_str()
                .is_some_and(|logged| logged.ends_with(text))
        };
        let lines = agent.log().lines();
        let found = lines.iter().find(is_it);
        found.map(|line| line["namespace"].clone())
    };
    assert_eq!(
        logged("its last known annotations apply").unwrap(),
        "default"
    );
    assert_eq!(logged("its annotations do not apply").unwrap(), "other");
    let labels = "result=\"forbidden\"";
    assert!(agent.metric("usher_namespace_requests_total", labels) >= 2.0);
    agent.kill();
    for pod in [before, after] {
        assert!(pod.requests(SIDECAR).is_empty());
    }
}
