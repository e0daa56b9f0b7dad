//! Several sidecars in a pod: helpers of the app first, the network
//! last.

use usher_tests::synthetic::catalog::{cloud_sql, drain, linkerd, logs};
use usher_tests::synthetic::{Agent, Pod};

use crate::enforcing;

fn term_ns(pod: &Pod, container: &str) -> u64 {
    let line = pod.wait_line(container, "term ");
    line.trim_start_matches("term ").parse().unwrap()
}

/// A stage starts when the one before has exited, not when it got its request.
#[test]
fn helpers_then_log_shippers_then_mesh() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let spec = linkerd::enabled()
        .job("three")
        .with(logs::fluent_bit().container)
        .with(cloud_sql::v2_with_the_endpoint().container);
    let pod = node.run(&spec);
    pod.finish("app", 0);
    for container in ["cloud-sql-proxy", "fluent-bit", "linkerd-proxy"] {
        assert_eq!(pod.ended(container).code(), 0);
    }
    agent.wait_for("sidecar-ended", &pod.name());
    let helper = pod.request("cloud-sql-proxy").at_ns;
    let logs = term_ns(&pod, "fluent-bit");
    let mesh = pod.request("linkerd-proxy").at_ns;
    let flushed =
        logs + u64::try_from(drain(std::time::Duration::from_secs(5)).as_nanos()).unwrap();
    assert!(helper < logs && flushed < mesh, "{helper} {logs} {mesh}");
}
