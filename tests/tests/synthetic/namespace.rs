//! Shared and private namespaces of pods, and machines of their
//! own.

use std::net::{Ipv4Addr, TcpListener};

use nix::sys::signal::Signal;
use usher_tests::privilege;
use usher_tests::synthetic::layout::{Driver, Runtime};
use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{ContainerSpec, Node, Origin, PodSpec, machine, process};

use crate::proc_file;

const SIDECAR: &str = "istio-proxy";

fn link(pid: i32, namespace: &str) -> String {
    let link = std::fs::read_link(format!("/proc/{pid}/ns/{namespace}")).unwrap();
    link.to_str().unwrap().to_owned()
}

#[test]
fn user_namespace_that_owns_the_network() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let pod = node.run(&PodSpec::job("users").own_users());
    let sidecar = pod.pid(SIDECAR);
    let this = i32::try_from(std::process::id()).unwrap();
    assert_ne!(link(sidecar, "user"), link(this, "user"));
    assert_eq!(link(sidecar, "user"), link(pod.pid("app"), "user"));
    assert_eq!(process::network(sidecar), pod.network());
    assert_ne!(pod.network(), process::network(this));
    let status = proc_file(sidecar, "status");
    let ids = status.lines().find(|line| line.starts_with("Uid:"));
    assert_eq!(ids.unwrap(), "Uid:\t1000000\t1000000\t1000000\t1000000");
    let map = proc_file(sidecar, "uid_map");
    let map: Vec<&str> = map.split_whitespace().collect();
    assert_eq!(map, ["0", "1000000", "65536"]);
    pod.finish("app", 0);
    assert_eq!(pod.ended("app").code(), 0);
    pod.signal(SIDECAR, Signal::SIGTERM);
    assert_eq!(pod.ended(SIDECAR).code(), 0);
}

#[test]
fn host_pids() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let pod = node.run(&PodSpec::job("host-pid").host_pids());
    let this = i32::try_from(std::process::id()).unwrap();
    for container in ["", "app", SIDECAR] {
        assert_eq!(link(pod.pid(container), "pid"), link(this, "pid"));
    }
    pod.finish("app", 5);
    assert_eq!(pod.ended("app").code(), 5);
}

#[test]
fn replaced_sandbox() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let pod = node.run(&PodSpec::job("replaced"));
    let (first, id) = (pod.network(), pod.id("app"));
    pod.replace_sandbox();
    assert_eq!(pod.ended(SIDECAR).code(), 137);
    for container in ["app", SIDECAR] {
        pod.restart(container);
        pod.wait_container(container);
        assert_eq!(process::network(pod.pid(container)), pod.network());
    }
    assert_ne!(pod.network(), first);
    assert_ne!(pod.id("app"), id);
    let cgroup = proc_file(pod.pid("app"), "cgroup");
    assert!(cgroup.contains(pod.uid()), "{cgroup}");
}

#[test]
fn sidecar_that_entered_another_network() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    let host = node.run(&PodSpec::job("host"));
    let sidecar = ContainerSpec::istio(Manner::Quit).later();
    let moved = node.run(&PodSpec::beside_app("moved", sidecar));
    moved.start_entering_network(SIDECAR, &host);
    let pid = moved.wait_container(SIDECAR);
    assert_eq!(process::network(pid), moved.network());
    moved.send_line(SIDECAR, "enter-network");
    moved.wait_line(SIDECAR, "entered-network");
    assert_eq!(process::network(pid), host.network());
}

#[test]
fn names_of_static_pods_and_of_other_runtimes() {
    if !privilege::granted() {
        return;
    }
    for (driver, runtime, container) in [
        (Driver::Systemd, Runtime::Crio, "crio-ID.scope"),
        (
            Driver::Systemd,
            Runtime::CrioWithCrun,
            "crio-ID.scope/container",
        ),
        (Driver::Cgroupfs, Runtime::CrioWithCrun, "crio-ID"),
    ] {
        let node = Node::with_runtime(driver, runtime);
        let pod = node.run(&PodSpec::job("static").origin(Origin::File));
        assert_eq!(pod.uid().len(), 32);
        let cgroup = proc_file(pod.pid("app"), "cgroup");
        let expected = format!("/{}\n", container.replace("ID", &pod.id("app")));
        assert!(cgroup.ends_with(&expected), "{cgroup}");
    }
}

#[test]
fn own_machine() {
    if !privilege::granted() || !machine::entered("namespace::own_machine") {
        return;
    }
    assert_eq!(process::all_networks().len(), 1);
    assert!(std::process::id() < 50);
    let node = Node::new();
    // The machine has its own loopback.
    let status = TcpListener::bind((Ipv4Addr::LOCALHOST, 15_020)).unwrap();
    let pod = node.run(
        &PodSpec::new("host-network")
            .host_network()
            .with(ContainerSpec::app("app")),
    );
    let this = i32::try_from(std::process::id()).unwrap();
    assert_eq!(process::network(pod.pid("app")), process::network(this));
    drop(status);
}

#[test]
fn reused_pid() {
    if !privilege::granted() || !machine::entered("namespace::reused_pid") {
        return;
    }
    let node = Node::new();
    let spec = PodSpec::new("pids")
        .with(ContainerSpec::app("first"))
        .with(ContainerSpec::app("second").later());
    let pod = node.run(&spec);
    let pid = pod.pid("first");
    pod.signal("first", Signal::SIGKILL);
    pod.ended("first");
    pod.start_with_pid("second", pid);
    pod.wait_container("second");
    assert_eq!(pod.pid("second"), pid);
}
