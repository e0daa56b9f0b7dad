//! Cloud SQL Auth Proxy: its exit code after SIGTERM would fail a successful pod.

use usher_tests::synthetic::catalog::cloud_sql;
use usher_tests::synthetic::{Agent, PodSpec};

use crate::{enforcing, terms};

const QUIT: &str = "POST /quitquitquit";
const PROXY: &str = "cloud-sql-proxy";

quits! {
    v2_with_the_endpoint: cloud_sql::v2_with_the_endpoint(), [(9091, QUIT)], Request, 0;
    v2_that_ends_with_zero: cloud_sql::v2_exit_zero(), [], Term, 0;
    of_the_operator: cloud_sql::operator(), [(9091, QUIT)], Request, 0;
    v1: cloud_sql::v1(), [], Term, 0;
}

/// 143 under `Never` would fail the pod, so the agent sends no signal.
#[test]
fn v2_with_a_successful_app() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&cloud_sql::v2().job("good"));
    pod.finish("app", 0);
    let line = agent.wait_for("gave-up", &pod.name());
    assert_eq!(line["container"], PROXY);
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains("143"), "{reason}");
    // Any later action would precede this one.
    let other = node.run(&PodSpec::job("other"));
    other.finish("app", 0);
    agent.wait_for("sidecar-ended", &other.name());
    assert_eq!(terms(&pod, PROXY), 0);
    assert!(pod.end_so_far(PROXY).is_none());
}

#[test]
fn v2_with_a_failed_app() {
    ends_with_143(&cloud_sql::v2().job("bad"), 1);
}

#[test]
fn v2_of_a_pod_that_may_be_failed() {
    let pod = cloud_sql::v2().job("failing");
    ends_with_143(&pod.annotation("usher.dev/allow-pod-failure", "true"), 0);
}

fn ends_with_143(spec: &PodSpec, app: u8) {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(spec);
    pod.finish("app", app);
    assert_eq!(pod.ended(PROXY).code(), 143);
    agent.wait_for("sidecar-ended", &pod.name());
    assert_eq!(terms(&pod, PROXY), 1);
}
