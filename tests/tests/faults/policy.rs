//! The conditions under which an app has exited for good, in all forms of pods.

use usher_tests::privilege;
use usher_tests::synthetic::layout::{Driver, Qos};
use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, PodSpec, RestartPolicy, RestartRule};
use usher_tests::wait::fewer;

use crate::{
    SIDECAR, enforcing, expect_quit, finish_and_quit, kernel, other_than_hold, wait_observed,
};

#[test]
fn never_ends_with_any_exit_code() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("failed"));
    pod.finish("app", 3);
    expect_quit(&agent, &pod);
}

#[test]
fn on_failure_ends_with_the_first_success() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("retries").policy(RestartPolicy::OnFailure));
    for _ in 0..2 {
        pod.finish("app", 1);
        pod.restart("app");
        pod.wait_container("app");
        assert!(pod.requests(SIDECAR).is_empty());
    }
    finish_and_quit(&agent, &pod);
    let exit_ns = pod.ended("app").exit_ns().unwrap();
    assert!(pod.request(SIDECAR).at_ns > exit_ns);
}

#[test]
fn on_failure_does_not_end_with_a_failure() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("fails").policy(RestartPolicy::OnFailure));
    pod.finish("app", 1);
    pod.ended("app");
    // A later pod is processed; this one was not.
    let other = node.run(&PodSpec::job("other").policy(RestartPolicy::OnFailure));
    finish_and_quit(&agent, &other);
    assert!(pod.requests(SIDECAR).is_empty());
    assert!(
        !agent
            .decisions(&pod.name())
            .contains(&"pod-finished".to_owned())
    );
}

#[test]
fn always_never_ends() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("server").policy(RestartPolicy::Always));
    pod.finish("app", 0);
    pod.ended("app");
    let other = node.run(&PodSpec::job("other"));
    finish_and_quit(&agent, &other);
    assert!(pod.requests(SIDECAR).is_empty());
    assert_eq!(other_than_hold(&agent, &pod), [""; 0]);
}

#[test]
fn container_restart_rule_restarts_it() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let app = ContainerSpec::app("app").rule(RestartRule::restart_after(&[42]));
    let spec = PodSpec::new("rule")
        .with(app)
        .with(ContainerSpec::istio(Manner::Quit));
    let pod = node.run(&spec);
    pod.finish("app", 42);
    pod.restart("app");
    pod.wait_container("app");
    let other = node.run(&PodSpec::job("other"));
    finish_and_quit(&agent, &other);
    assert!(pod.requests(SIDECAR).is_empty());
    pod.finish("app", 1);
    expect_quit(&agent, &pod);
}

#[test]
fn container_policy_overrides_the_pod_policy() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let app = ContainerSpec::app("app").own_policy(RestartPolicy::Always);
    let spec = PodSpec::new("policy")
        .with(app)
        .with(ContainerSpec::istio(Manner::Quit));
    let pod = node.run(&spec);
    pod.finish("app", 0);
    pod.ended("app");
    let other = node.run(&PodSpec::job("other"));
    finish_and_quit(&agent, &other);
    assert!(pod.requests(SIDECAR).is_empty());
}

#[test]
fn two_apps_end_with_the_second() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let spec = PodSpec::new("pair")
        .with(ContainerSpec::app("app"))
        .with(ContainerSpec::app("second"))
        .with(ContainerSpec::istio(Manner::Quit));
    let pod = node.run(&spec);
    pod.finish("second", 0);
    pod.ended("second");
    let other = node.run(&PodSpec::job("other"));
    finish_and_quit(&agent, &other);
    assert!(pod.requests(SIDECAR).is_empty());
    finish_and_quit(&agent, &pod);
    let exit_ns = pod.ended("app").exit_ns().unwrap();
    assert!(pod.request(SIDECAR).at_ns > exit_ns);
}

#[test]
fn statuses_are_not_needed() {
    let Some(node) = enforcing() else { return };
    node.kubelet().lag(std::time::Duration::MAX);
    let agent = Agent::start(&node);
    let never = node.run(&PodSpec::job("never"));
    let on_failure = node.run(&PodSpec::job("on-failure").policy(RestartPolicy::OnFailure));
    for pod in [&never, &on_failure] {
        wait_observed(&node, pod);
    }
    finish_and_quit(&agent, &never);
    // Only the exit code decides whether the app is restarted.
    if kernel::reports_exit_codes() {
        finish_and_quit(&agent, &on_failure);
    }
}

#[test]
fn shared_pid_namespace() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("shared").sharing_processes());
    finish_and_quit(&agent, &pod);
}

#[test]
fn every_qos_class_and_both_cgroup_drivers() {
    if !privilege::granted() {
        return;
    }
    for driver in [Driver::Cgroupfs, Driver::Systemd] {
        let node = Node::with_driver(driver);
        node.annotate(&[("usher.dev/mode", "enforce")]);
        let agent = Agent::start(&node);
        for qos in [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort] {
            let name = format!("class-{}", qos.name().to_lowercase());
            let pod = node.run(&PodSpec::job(&name).qos(qos));
            finish_and_quit(&agent, &pod);
        }
    }
}

#[test]
fn two_hundred_and_fifty_pods_at_once() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let specs: Vec<PodSpec> = (0..fewer(250))
        .map(|n| PodSpec::job(&format!("job-{n}")))
        .collect();
    let pods = node.run_all(&specs);
    for pod in &pods {
        pod.finish("app", 0);
    }
    for pod in &pods {
        expect_quit(&agent, pod);
    }
}
