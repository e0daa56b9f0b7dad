//! `hostUsers: false`: the pod's network namespace belongs to a user namespace
//! of its own, in which the agent has the privileges of the node's root.

use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{Agent, ContainerSpec, PodSpec};

use crate::{enforcing, finish_and_quit, finish_and_signal};

#[test]
fn request_in_a_network_of_another_user_namespace() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("users").own_users());
    finish_and_quit(&agent, &pod);
}

#[test]
fn signal_to_another_user() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let sidecar = ContainerSpec::istio(Manner::Quit).refusing();
    let pod = node.run(&PodSpec::beside_app("users", sidecar).own_users());
    finish_and_signal(&agent, &pod);
}
