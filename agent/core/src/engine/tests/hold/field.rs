//! Pods from the field: what releases their connections, and when.

use super::super::hold::*;
use crate::recipe::tests::field::pod_of;

/// The pod of a case in enforce mode. Its containers have just started, and its connections are held.
fn running(case: &str) -> Stage {
    let mut stage = held(Mode::Enforce, pod_of(case));
    stage.hold();
    start_all(&mut stage);
    stage
}

fn start_all(stage: &mut Stage) {
    for (number, container) in stage.spec.containers.clone().into_iter().enumerate() {
        stage.start(&container.name, &format!("r{number}"));
    }
    stage.take_hold();
}

fn listens(port: u16) -> Probe {
    Probe::Listens { port }
}

fn answers(port: u16, path: &str) -> Probe {
    Probe::Answers {
        port,
        path: path.to_owned(),
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_proxy_without_a_status_port_is_ready_when_it_listens() {
    let mut stage = running("Istio with its status port off");
    stage.pass(seconds(3));
    assert_eq!(stage.take_hold(), NOTHING);
    stage.probed(listens(15001));
    assert_eq!(stage.take_hold(), ["release all"]);
}

/// 15021 always answers 503, or has no listener. Without usher the connections would reach the proxy.
#[test]
fn a_proxy_that_listens_is_not_waited_for_longer_than_its_grace() {
    let mut stage = held(Mode::Enforce, istio());
    stage.hold();
    start_all(&mut stage);
    stage.pass(seconds(7));
    stage.probed(listens(15001));
    stage.pass(millis(1999));
    assert_eq!(stage.take_hold(), NOTHING);
    stage.pass(millis(1));
    assert_eq!(stage.take_hold(), ["release all"]);
    stage.released(1);
    let reason = "hold-released: the sidecar listens, but its readiness probe has not succeeded within 2 s: connections are \
                  released, 9000 ms after the hold began; 1 connection had waited, 240 ms";
    assert_eq!(stage.take_hold()[0], reason);
}

#[test]
fn a_proxy_that_is_ready_within_its_grace_is_reported_as_ready() {
    let mut stage = held(Mode::Enforce, istio());
    stage.hold();
    start_all(&mut stage);
    stage.probed(listens(15001));
    stage.pass(seconds(1));
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release all"]);
    stage.released(1);
    assert!(stage.take_hold()[0].starts_with("hold-released: the sidecar is ready"));
}

/// The listener of an earlier run of the proxy does not count.
#[test]
fn the_grace_counts_from_the_listener_of_the_run_that_lives() {
    let mut stage = held(Mode::Enforce, pod(RestartPolicy::OnFailure, &["app"]));
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.take_hold();
    stage.probed(listens(15001));
    stage.pass(seconds(1));
    stage.exit("i", 255);
    stage.pass(seconds(5));
    assert_eq!(stage.take_hold(), NOTHING);
    stage.start(PROXY, "j");
    assert_eq!(stage.take_hold(), ["watch [Listens { port: 15001 }]"]);
    stage.pass(seconds(5));
    assert_eq!(stage.take_hold(), NOTHING);
    stage.probed(listens(15001));
    stage.pass(seconds(2));
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn a_failed_probe_is_reported_also_where_another_sidecar_is_ready_later() {
    let mut stage = held(Mode::Enforce, two_sidecars());
    stage.hold();
    start_all(&mut stage);
    stage.probed(listens(15001));
    stage.pass(seconds(3));
    assert_eq!(stage.take_hold(), ["release 15001"]);
    stage.probed(listens(3500));
    stage.probed(listens(50001));
    stage.released(1);
    assert!(stage.take_hold()[2].contains("its readiness probe has not succeeded"));
}

#[test]
fn proxyless_grpc_starts_when_its_agent_is_ready() {
    let mut stage = held(Mode::Enforce, pod_of("proxyless gRPC with a held start"));
    stage.hold();
    stage.start(PROXY, "i");
    let watch =
        "watch [Listens { port: 15001 }, Answers { port: 15020, path: \"/healthz/ready\" }]";
    assert_eq!(stage.take_hold(), [watch]);
    stage.pass(seconds(2));
    stage.probed(answers(15020, "/healthz/ready"));
    assert_eq!(stage.take_hold(), ["release all", "starts []"]);
}

#[test]
fn kuma_before_its_readiness_port_answers_at_its_admin_port() {
    let mut stage = running("Kuma before its readiness port");
    stage.probed(answers(9901, "/ready"));
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn upstreams_of_consul_open_with_their_listeners() {
    let mut stage = held(Mode::Enforce, pod_of("Consul's upstreams by annotation"));
    stage.announce();
    let arm = "arm 1234 30s, 1235 30s, users [5995]";
    assert_eq!(stage.take_hold()[0], arm);
    stage.armed();
    stage.start("consul-dataplane", "c");
    stage.take_hold();
    stage.pass(seconds(3));
    stage.probed(listens(1234));
    assert_eq!(stage.take_hold(), ["release 1234"]);
    stage.probed(listens(1235));
    assert_eq!(stage.take_hold(), ["release all", "starts []"]);
}

/// Consul's configuration may disable the transparent proxy, which the pod's spec does not show.
#[test]
fn a_captured_port_is_not_waited_for_once_all_upstreams_listen() {
    let mut stage = running("Consul's prepared queries and labelled upstreams");
    stage.probed(listens(1234));
    stage.probed(listens(1235));
    assert_eq!(stage.take_hold(), ["release 1234", "release 1235"]);
    stage.pass(seconds(2));
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn consul_s_dns_opens_with_its_own_listener_or_a_little_later() {
    let mut stage = running("Consul with transparent proxy and DNS");
    stage.probed(listens(15001));
    assert_eq!(stage.take_hold(), ["release 15001"]);
    stage.pass(seconds(1));
    stage.probed(listens(8600));
    assert_eq!(stage.take_hold(), ["release all"]);
    let mut stage = running("Consul with transparent proxy and DNS");
    stage.probed(listens(15001));
    stage.pass(seconds(2));
    assert_eq!(stage.take_hold(), ["release 15001", "release all"]);
}

#[test]
fn each_instance_opens_with_its_own_listener() {
    let mut stage = running("one Cloud SQL proxy with two instances");
    stage.probed(listens(5432));
    assert_eq!(stage.take_hold(), ["release 5432"]);
    // Meanwhile the proxy queries the database engine of its second instance.
    stage.pass(seconds(4));
    assert_eq!(stage.take_hold(), NOTHING);
    stage.probed(listens(5433));
    assert_eq!(stage.take_hold(), ["release 5433"]);
    stage.pass(seconds(1));
    assert_eq!(stage.take_hold(), ["release all"]);
    let mut stage = running("instances by variables");
    stage.probed(listens(6001));
    assert_eq!(stage.take_hold(), ["release 6001"]);
    stage.probed(listens(6000));
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn port_of_one_proxy_does_not_release_another_proxy() {
    let mut stage = running("two Cloud SQL proxies");
    stage.pass(seconds(1));
    stage.probed(listens(5432));
    assert_eq!(stage.take_hold(), ["release 5432"]);
    stage.pass(seconds(4));
    assert_eq!(stage.take_hold(), NOTHING);
    stage.probed(listens(3306));
    assert_eq!(stage.take_hold(), ["release 3306"]);
    stage.pass(seconds(1));
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn exited_proxy_has_no_listeners() {
    let mut stage = running("two Cloud SQL proxies");
    stage.probed(listens(5432));
    assert_eq!(stage.take_hold(), ["release 5432"]);
    stage.exit("r2", 1);
    stage.pass(seconds(1));
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn database_proxies_open_with_their_listeners() {
    for (case, port) in [
        ("Cloud SQL proxy v1 below a shell", 5432),
        ("Cloud SQL proxy v1 in an own image", 3306),
        ("AlloyDB", 5433),
    ] {
        let mut stage = running(case);
        stage.pass(seconds(3));
        assert_eq!(stage.take_hold(), NOTHING, "{case}");
        stage.probed(listens(port));
        assert_eq!(stage.take_hold(), ["release all"], "{case}");
    }
}
