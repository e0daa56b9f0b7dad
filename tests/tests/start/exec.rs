//! Programs that run in a held container, such as probes, hooks and
//! `kubectl exec`: they do not wait.

use std::time::Duration;

use usher_tests::synthetic::Agent;
use usher_tests::synthetic::wire::{Client, End, Program};

use crate::{APP, FAR, held, holding, ran_after_the_proxy, ready, ready_on_command};

const BRIEF: Program = Program::App(End::After {
    life: Duration::ZERO,
    code: 7,
});

#[test]
fn exec_runs_at_once() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    for spec in [
        ready_on_command("own"),
        ready_on_command("shared").sharing_processes(),
    ] {
        let pod = node.create(&spec);
        held(&agent, &pod);
        for name in ["hook", "probe", "manual"] {
            pod.exec(APP, name, BRIEF);
        }
        for name in ["hook", "probe", "manual"] {
            assert_eq!(pod.ended(name).code(), 7);
        }
        assert!(!pod.has_run(APP));
        ready(&pod);
        ran_after_the_proxy(&pod);
    }
}

/// From the moment that the runtime has started it, held or not yet.
#[test]
fn hook_runs_as_early_as_possible() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("hook"));
    pod.started(APP);
    pod.exec(APP, "hook", BRIEF);
    assert_eq!(pod.ended("hook").code(), 7);
    held(&agent, &pod);
    ready(&pod);
    ran_after_the_proxy(&pod);
}

/// The program is in the pod's network, so its connections are held like the app's.
#[test]
fn connections_of_an_exec_are_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("connects"));
    held(&agent, &pod);
    pod.exec(APP, "manual", Program::Client(Client::to(FAR)));
    pod.first_instruction("manual");
    ready(&pod);
    assert_eq!(pod.client_result("manual").code, 0);
    ran_after_the_proxy(&pod);
}

#[test]
fn exec_in_a_running_container() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.create(&ready_on_command("runs"));
    crate::is_held_until_ready(&agent, &pod);
    pod.exec(APP, "probe", BRIEF);
    assert_eq!(pod.ended("probe").code(), 7);
}
