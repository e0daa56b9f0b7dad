//! A process of one pod in the network namespace of another, as node agents
//! and CNI plugins enter them.
//!
//! A request goes to a port of a namespace and does not identify the
//! listener. So the namespace must be the
//! sidecar's own, and not one that it visits.

use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

use crate::{SIDECAR, enforcing, finish_and_quit, finish_and_signal, is_untouched};

/// A running pod, and one with a sidecar that has no open port and
/// is in the network of the first.
fn visited(node: &Node) -> (Pod, Pod) {
    let host = node.run(&PodSpec::job("host"));
    let sidecar = ContainerSpec::istio(Manner::Quit).refusing().later();
    let guest = node.run(&PodSpec::beside_app("guest", sidecar));
    guest.start_visitor(SIDECAR, &host);
    guest.wait_container(SIDECAR);
    (host, guest)
}

fn visit(guest: &Pod) {
    guest.tell(SIDECAR, "visit");
    guest.wait_line(SIDECAR, "visiting");
}

#[test]
fn visitor_gets_no_request_at_its_hosts_port() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let (host, guest) = visited(&node);
    agent.wait_metric("usher_pods", "", |pods| pods > 1.5);
    crate::all_is_dealt_with(&agent, &node);
    visit(&guest);
    finish_and_signal(&agent, &guest);
    assert!(is_untouched(&host));
    finish_and_quit(&agent, &host);
}

/// A later agent cannot observe that the sidecar moved. The other processes of its pod identify its
/// own namespace.
#[test]
fn agent_started_during_the_visit_sends_the_visitor_no_request() {
    let Some(node) = enforcing() else { return };
    let (host, guest) = visited(&node);
    visit(&guest);
    let agent = Agent::start(&node);
    crate::all_is_dealt_with(&agent, &node);
    finish_and_signal(&agent, &guest);
    assert!(is_untouched(&host));
    finish_and_quit(&agent, &host);
}

#[test]
fn host_gets_the_request_and_its_visitor_does_not() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let (host, guest) = visited(&node);
    visit(&guest);
    finish_and_quit(&agent, &host);
    assert!(is_untouched(&guest));
    finish_and_signal(&agent, &guest);
}
