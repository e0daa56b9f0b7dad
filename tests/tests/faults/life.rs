//! Short-lived containers, late sidecars, foreign cgroups.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use nix::sys::signal::Signal;
use usher_tests::synthetic::catalog::logs;
use usher_tests::synthetic::wire::{Manner, Pace};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

use crate::{SIDECAR, enforcing, expect_quit, finish_and_quit, other_than_hold};

const LOGS: &str = "fluent-bit";
const SHORT: Duration = Duration::from_millis(5);

fn lives_shortly(life: Duration, pace: Pace) {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let specs: Vec<PodSpec> = (0..20)
        .map(|n| {
            PodSpec::new(&format!("short-{n}"))
                .with(ContainerSpec::brief_app("app", life, 0).pace(pace))
                .with(ContainerSpec::istio(Manner::Quit).pace(pace))
        })
        .collect();
    for pod in node.run_all(&specs) {
        expect_quit(&agent, &pod);
    }
}

#[test]
fn app_runs_for_five_milliseconds() {
    lives_shortly(SHORT, Pace::default());
}

#[test]
fn app_runs_for_five_milliseconds_with_the_timing_of_runc() {
    lives_shortly(SHORT, Pace::RUNC);
}

/// On a loaded machine the runtime's first process stays in the cgroup for long, and it is not the container's.
#[test]
fn slow_runtime() {
    let Some(node) = enforcing() else { return };
    let pace = Pace {
        stage: Duration::from_millis(150),
        exec: Duration::from_millis(50),
        removal: Duration::from_millis(50),
        ..Pace::default()
    };
    let agent = Agent::start(&node);
    let spec = PodSpec::new("slow-start")
        .with(ContainerSpec::app("app").pace(pace))
        .with(ContainerSpec::istio(Manner::Quit).pace(pace));
    let pod = node.run(&spec);
    finish_and_quit(&agent, &pod);
}

/// The oldest process of a sandbox with a shared pid namespace is accepted as its first after this time; this is longer.
const SECONDS: Pace = Pace {
    stage: Duration::from_millis(2_500),
    ..Pace::RUNC
};

#[test]
fn runtime_takes_seconds_to_start_the_app() {
    takes_seconds(SECONDS, Pace::RUNC);
}

#[test]
fn runtime_takes_seconds_to_start_the_sidecar() {
    takes_seconds(Pace::RUNC, SECONDS);
}

/// The exit of the runtime's process is not the exit of the container.
fn takes_seconds(app: Pace, sidecar: Pace) {
    for shared in [false, true] {
        let Some(node) = enforcing() else { return };
        let agent = Agent::start(&node);
        let spec = PodSpec::new("seconds")
            .with(ContainerSpec::app("app").pace(app))
            .with(ContainerSpec::istio(Manner::Quit).pace(sidecar));
        let spec = if shared {
            spec.sharing_processes()
        } else {
            spec
        };
        let pod = node.run(&spec);
        assert_eq!(other_than_hold(&agent, &pod), [""; 0]);
        finish_and_quit(&agent, &pod);
        let exit_ns = pod.ended("app").exit_ns().unwrap();
        assert!(pod.request(SIDECAR).at_ns > exit_ns);
    }
}

#[test]
fn app_exits_at_once() {
    lives_shortly(Duration::ZERO, Pace::default());
}

/// A runtime that restarts kills containers that it had only created. The kubelet starts them again under any policy.
#[test]
fn app_is_killed_before_it_starts() {
    ends_before_it_has_begun(Signal::SIGKILL);
}

/// The runtime's process that creates a container exits by itself when the runtime does.
#[test]
fn app_exits_with_2_before_it_starts() {
    ends_before_it_has_begun(Signal::SIGTERM);
}

fn with_app_that_is_only_created(node: &Node) -> Pod {
    let created = Pace {
        exec: Duration::from_secs(3600),
        ..Pace::RUNC
    };
    let spec = PodSpec::new("created")
        .with(ContainerSpec::istio(Manner::Quit))
        .with(ContainerSpec::app("app").pace(created).later());
    let pod = node.run(&spec);
    pod.start("app");
    pod.pid("app");
    pod
}

fn ends_before_it_has_begun(by: Signal) {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = with_app_that_is_only_created(&node);
    // The agent knows the existing pods when it has processed another pod.
    finish_and_quit(&agent, &node.run(&PodSpec::job("before")));
    pod.signal("app", by);
    pod.ended("app");
    finish_and_quit(&agent, &node.run(&PodSpec::job("after")));
    assert_eq!(other_than_hold(&agent, &pod), [""; 0]);
    pod.restart_at("app", Pace::RUNC);
    pod.wait_container("app");
    finish_and_quit(&agent, &pod);
    assert_eq!(pod.requests(SIDECAR).len(), 1);
}

/// A signal before the start of a created container ends the runtime's process, and the container with it: its Job fails.
#[test]
fn signal_waits_until_the_created_sidecar_runs() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let created = Pace {
        exec: Duration::from_secs(5),
        ..Pace::RUNC
    };
    let logs = || logs::fluent_bit().container;
    let job = |name: &str| PodSpec::new(name).with(ContainerSpec::app("app"));
    let spec = job("created").with(logs().pace(created).later());
    let pod = node.run(&spec);
    pod.start(LOGS);
    pod.pid(LOGS);
    pod.finish("app", 0);
    agent.wait_for("pod-finished", &pod.name());
    // A signal by age is sent to this sidecar after it would have been sent to the first.
    let other = node.run(&job("runs").with(logs()));
    other.finish("app", 0);
    assert_eq!(other.ended(LOGS).code(), 0);
    assert_eq!(pod.ended(LOGS).code(), 0);
}

/// A runtime that restarts may leave containers that it had only created, and the kubelet creates the container again.
#[test]
fn created_container_survives_alongside_the_app() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = with_app_that_is_only_created(&node);
    pod.start_at("app", Pace::RUNC);
    pod.wait_container("app");
    finish_and_quit(&agent, &pod);
}

/// The kubelet does not list the first run any more, but that run is still alive.
#[test]
fn app_that_outlives_its_restart_is_waited_for() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("alongside"));
    pod.start_at("app", Pace::RUNC);
    pod.wait_container("app");
    pod.finish("app", 0);
    pod.ended("app");
    finish_and_quit(&agent, &node.run(&PodSpec::job("after")));
    assert_eq!(other_than_hold(&agent, &pod), [""; 0]);
}

#[test]
fn app_exits_before_its_sidecar_exists() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let spec = PodSpec::new("early")
        .with(ContainerSpec::app("app"))
        .with(ContainerSpec::istio(Manner::Quit).later());
    let pod = node.run(&spec);
    pod.finish("app", 1);
    pod.ended("app");
    agent.wait_for("pod-finished", &pod.name());
    pod.start(SIDECAR);
    pod.wait_container(SIDECAR);
    expect_quit(&agent, &pod);
}

#[test]
fn app_exits_before_its_sidecar_listens() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let spec = PodSpec::new("early")
        .with(ContainerSpec::app("app"))
        .with(ContainerSpec::istio(Manner::Quit).refusing());
    let pod = node.run(&spec);
    pod.finish("app", 0);
    agent.wait_for("pod-finished", &pod.name());
    pod.send_line(SIDECAR, "listen");
    expect_quit(&agent, &pod);
}

#[test]
fn foreign_cgroup_names() {
    let Some(node) = enforcing() else { return };
    let kubepods = node.cgroup_root().join("kubepods");
    let besteffort = kubepods.join("besteffort");
    let other_root = node.cgroup_root().join("system.slice");
    let make = |path: &std::path::Path| std::fs::create_dir(path).unwrap();
    let foreign = [
        b"podcast".as_slice(),
        b"pod",
        b"pod..",
        b"pod\xff\xfe",
        b"\xf0\x28\x8c\x28",
        b"a b\tc",
        b"kubepods-besteffort-pod0d7e0c5c_6f0c_4b5a_9c1d_8a6d8a0f2b11.slice.d",
    ];
    make(&other_root);
    for name in foreign {
        make(&kubepods.join(OsStr::from_bytes(name)));
        make(&besteffort.join(OsStr::from_bytes(name)));
    }
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("among-them"));
    // More foreign cgroups appear later, also in a pod.
    for name in foreign {
        make(&pod.cgroup().join(OsStr::from_bytes(name)));
    }
    let conmon = format!("crio-conmon-{}", "ab".repeat(32));
    make(&pod.cgroup().join(conmon));
    make(&besteffort.join("latecomer"));
    finish_and_quit(&agent, &pod);
    let errors = agent.metric("usher_discovery_errors_total", "");
    assert!(errors.abs() < f64::EPSILON, "{}", agent.metrics());
}
