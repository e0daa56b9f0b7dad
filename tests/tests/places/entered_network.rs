//! A process of one pod in the network namespace of another, as node agents
//! and CNI plugins enter them.
//!
//! A request goes to a port of a namespace and does not identify the
//! listener. So the namespace must be the
//! sidecar's own, and not one that it entered later.

use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

use crate::{SIDECAR, enforcing, finish_and_quit, finish_and_signal, is_untouched};

/// A running pod, and one with a sidecar that has no open port and
/// is in the network of the first.
fn two_pods(node: &Node) -> (Pod, Pod) {
    let host = node.run(&PodSpec::job("host"));
    let sidecar = ContainerSpec::istio(Manner::Quit).refusing().later();
    let moved = node.run(&PodSpec::beside_app("moved", sidecar));
    moved.start_entering_network(SIDECAR, &host);
    moved.wait_container(SIDECAR);
    (host, moved)
}

fn enter_network(moved: &Pod) {
    moved.send_line(SIDECAR, "enter-network");
    moved.wait_line(SIDECAR, "entered-network");
}

#[test]
fn sidecar_in_another_network_receives_no_request() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let (host, moved) = two_pods(&node);
    agent.wait_metric("usher_pods", "", |pods| pods > 1.5);
    crate::all_is_dealt_with(&agent, &node);
    enter_network(&moved);
    finish_and_signal(&agent, &moved);
    assert!(is_untouched(&host));
    finish_and_quit(&agent, &host);
}

/// A later agent cannot observe that the sidecar moved. The other processes of its pod identify its
/// own namespace.
#[test]
fn agent_started_later_sends_no_request_into_another_network() {
    let Some(node) = enforcing() else { return };
    let (host, moved) = two_pods(&node);
    enter_network(&moved);
    let agent = Agent::start(&node);
    crate::all_is_dealt_with(&agent, &node);
    finish_and_signal(&agent, &moved);
    assert!(is_untouched(&host));
    finish_and_quit(&agent, &host);
}

#[test]
fn only_the_owner_of_a_network_receives_the_request() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let (host, moved) = two_pods(&node);
    enter_network(&moved);
    finish_and_quit(&agent, &host);
    assert!(is_untouched(&moved));
    finish_and_signal(&agent, &moved);
}
