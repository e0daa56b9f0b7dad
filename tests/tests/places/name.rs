//! The cgroup names of pods and containers for other runtimes and
//! other sources of pods.

use usher_tests::privilege;
use usher_tests::synthetic::layout::{Driver, Runtime};
use usher_tests::synthetic::{Agent, Node, Origin, PodSpec};

use crate::{enforced, enforcing, finish_and_quit};

fn quits_on(driver: Driver, runtime: Runtime) {
    if !privilege::granted() {
        return;
    }
    let node = enforced(Node::with_runtime(driver, runtime));
    let agent = Agent::start(&node);
    for origin in [Origin::Job, Origin::File] {
        let name = format!("{origin:?}").to_lowercase();
        let pod = node.run(&PodSpec::job(&name).origin(origin));
        finish_and_quit(&agent, &pod);
    }
}

/// A static pod's UID has no dashes, so the systemd driver replaces none.
#[test]
fn static_pod() {
    quits_on(Driver::Cgroupfs, Runtime::Containerd);
    quits_on(Driver::Systemd, Runtime::Containerd);
}

#[test]
fn crio_with_cgroupfs() {
    quits_on(Driver::Cgroupfs, Runtime::Crio);
}

#[test]
fn crio_with_systemd() {
    quits_on(Driver::Systemd, Runtime::Crio);
}

/// Its processes are in a cgroup below the container's.
#[test]
fn crio_with_crun() {
    quits_on(Driver::Systemd, Runtime::CrioWithCrun);
}

#[test]
fn bare_pod() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("bare").origin(Origin::NoOwner));
    finish_and_quit(&agent, &pod);
}
