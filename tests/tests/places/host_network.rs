//! Pods that share the node's loopback: any process of the node may listen there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

use usher_tests::privilege;
use usher_tests::synthetic::wire::{Manner, Program};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, PodSpec, machine};

use crate::{enforced, finish_and_signal};

/// Listeners of the node on every port that a recipe could use.
struct Loopback(Vec<TcpListener>);

impl Loopback {
    fn open() -> Self {
        let addresses: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let ports = [15_020, 15_000, 15_021];
        let all = addresses
            .into_iter()
            .flat_map(|address| ports.map(|port| (address, port)));
        let listeners: Vec<_> = all.map(|place| TcpListener::bind(place).unwrap()).collect();
        for listener in &listeners {
            listener.set_nonblocking(true).unwrap();
        }
        Self(listeners)
    }

    fn has_no_connection(&self) -> bool {
        self.0.iter().all(|listener| listener.accept().is_err())
    }
}

/// The sidecar itself has no ports: the node has them.
fn job(name: &str) -> PodSpec {
    let mut sidecar = ContainerSpec::istio(Manner::Quit);
    if let Program::Sidecar(program) = &mut sidecar.program {
        program.listeners.clear();
    }
    PodSpec::beside_app(name, sidecar)
}

fn gets_a_signal_only(spec: &PodSpec) {
    let node = enforced(Node::new());
    let loopback = Loopback::open();
    let agent = Agent::start(&node);
    let pod = node.run(spec);
    finish_and_signal(&agent, &pod);
    assert!(loopback.has_no_connection());
}

#[test]
fn host_listener() {
    if !privilege::granted() || !machine::entered("host_network::host_listener") {
        return;
    }
    gets_a_signal_only(&job("host-network").host_network());
}

/// The kubelet does not report the host network; the kernel does.
#[test]
fn unreported_by_the_kubelet() {
    if !privilege::granted() || !machine::entered("host_network::unreported_by_the_kubelet") {
        return;
    }
    let mut spec = job("unreported");
    spec.shares.host_network_unreported = true;
    gets_a_signal_only(&spec);
}
