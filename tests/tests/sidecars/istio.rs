//! Istio, by version and by configuration.

use usher_tests::synthetic::Agent;
use usher_tests::synthetic::catalog::istio;

use crate::{enforcing, received, terms};

const QUIT: &str = "POST /quitquitquit";

quits! {
    v1_2_has_no_endpoint: istio::v1_2(), [], Term, 0;
    v1_3_would_survive_its_envoy: istio::v1_3(), [(15_020, QUIT)], Request, 0;
    v1_20_would_drain_at_15020: istio::v1_20(), [(15_000, QUIT)], Request, 0;
    v1_20_on_ipv6_only: istio::v1_20_ipv6(), [(15_000, QUIT)], Request, 0;
    v1_26_ends_at_once: istio::v1_26(), [(15_020, QUIT)], Request, 0;
    v1_26_that_panics: istio::v1_26_that_panics(), [(15_020, QUIT), (15_020, QUIT)], Request, 0;
    v1_26_without_ports: istio::v1_26_without_ports(), [], Term, 0;
    proxyless_grpc: istio::proxyless(), [], Term, 0;
    proxyless_grpc_v1_25: istio::proxyless_v1_25(), [(15_020, QUIT)], Request, 0;
}

/// On a busy machine the sidecar may run for longer than the agent waits before it repeats such a request.
#[test]
fn v1_26_whose_reply_is_lost() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&istio::v1_26_without_a_reply().job("lost"));
    pod.finish("app", 0);
    assert_eq!(pod.ended("istio-proxy").code(), 0);
    agent.wait_for("sidecar-ended", &pod.name());
    let mut requests = received(&pod, "istio-proxy");
    requests.dedup();
    assert_eq!(requests, [(15_020, QUIT.to_owned())]);
    assert_eq!(terms(&pod, "istio-proxy"), 0);
    let decisions = agent.decisions(&pod.name());
    assert!(!decisions.contains(&"gave-up".to_owned()), "{decisions:?}");
}

/// The agent queries its version while the app runs, so that it is known at the exit.
#[test]
fn v1_20_without_a_version_tag() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&istio::v1_20_by_digest().job("digest"));
    let question = pod.request("istio-proxy");
    assert_eq!(question.port, 15_000);
    assert_eq!(question.line, "GET /server_info HTTP/1.1");
    let labels = "decision=\"version-reported\"";
    agent.wait_metric("usher_decisions_total", labels, |count| count > 0.5);
    pod.finish("app", 0);
    assert_eq!(pod.ended("istio-proxy").code(), 0);
    assert_eq!(received(&pod, "istio-proxy"), [(15_000, QUIT.to_owned())]);
}
