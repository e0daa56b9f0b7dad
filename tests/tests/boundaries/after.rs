//! The conditions after the kill, and at the end.

use serde_json::Value;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, Doomed, Node, Pod, process};

use crate::scenario::{APP, DAPR, LOGS, PROXY, Scenario, Step, has_table, held_ports};

/// Kills the agent at its kill point. Held connections are released by the kernel at the deadline. Then another
/// agent starts.
pub(crate) fn the_kill(scenario: &Scenario, step: Step, doomed: Doomed) -> Agent {
    doomed.kill();
    if let Some(held) = scenario.held.borrow().as_ref() {
        let held_ports = held_ports(held);
        let elements = held_ports.split('}').next().unwrap_or_default();
        let shut: Vec<&str> = elements.split(',').map(str::trim).collect();
        let shut = shut.iter().filter(|port| !port.is_empty());
        for port in shut.clone() {
            let has_deadline = port.contains("timeout") && port.contains("expires");
            assert!(has_deadline, "a port without a deadline: {held_ports}");
        }
        // Armed before, and neither sidecar is ready.
        if matches!(step, Step::Order | Step::Start) {
            assert!(shut.count() > 0, "killed in {step:?}: no port is shut");
        }
    }
    Agent::start_with_api(&scenario.node, &scenario.server, &[])
}

/// The pods ended as without the kill, and nothing is left in them.
pub(crate) fn the_end(scenario: &Scenario, place: &str) {
    scenario.of_held(|held| {
        let result = held.client_result_so_far(APP, 1);
        assert_eq!(result.failed, [], "killed at {place}: {result:?}");
        ended_well(held, PROXY, place);
        ended_well(held, DAPR, place);
        // The first signal ends it, so there is no second.
        assert_eq!(posts(held, PROXY), 1, "killed at {place}");
    });
    scenario.of_plain(|plain| {
        ended_well(plain, PROXY, place);
        ended_well(plain, LOGS, place);
        // A second request may follow during the drain, from an agent that has no record of the first one.
        assert!((1..=2).contains(&posts(plain, PROXY)), "killed at {place}");
    });
    for pod in [&scenario.held, &scenario.plain] {
        let pod = pod.borrow();
        let pod = pod.as_ref().unwrap();
        let what = format!("no table in {}, killed at {place}", pod.name());
        eventually(&what, || !has_table(pod));
    }
}

/// Nothing of usher is left after the removal of the pods, and the timeline has their ends.
pub(crate) fn all_is_well(scenario: &Scenario, agent: &Agent, place: &str) {
    nothing_is_left(&scenario.node, agent, place);
    timeline_records(scenario, place);
}

/// Nothing of the removed pods is left in the agent.
pub(crate) fn nothing_is_left(node: &Node, agent: &Agent, place: &str) {
    agent.wait_metric("usher_pods", "", |pods| pods < 0.5);
    // The agent may have a request in its own namespace.
    let own = process::network(i32::try_from(agent.pid()).unwrap());
    let what = format!("no descriptor of a pod's network, killed at {place}");
    eventually(&what, || {
        let held = process::held_networks(agent.pid());
        held.iter().all(|network| Some(network) == own.as_ref())
    });
    agent.wait_metric("usher_held_starts", "", |starts| starts < 0.5);
    agent.wait_metric("usher_held_pods", "", |pods| pods < 0.5);
    agent.wait_metric("usher_held_stop_signals", "", |signals| signals < 0.5);
    // The agent may write a file now.
    let what = format!("no unfinished file, killed at {place}");
    eventually(&what, || {
        let names = std::fs::read_dir(node.run_dir()).unwrap();
        let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        !names.any(|name| name.ends_with(".new"))
    });
}

fn ended_well(pod: &Pod, sidecar: &str, place: &str) {
    let code = pod.ended(sidecar).code();
    assert_eq!(code, 0, "{sidecar} of {}, killed at {place}", pod.name());
}

/// The number of quit requests to a sidecar.
fn posts(pod: &Pod, sidecar: &str) -> usize {
    let requests = pod.requests(sidecar);
    let posts = requests
        .iter()
        .filter(|asked| asked.line.starts_with("POST"));
    posts.count()
}

/// The timeline is intact, and has the end of both pods.
fn timeline_records(scenario: &Scenario, place: &str) {
    for pod in ["default/held", "default/plain"] {
        eventually(&format!("{pod}'s timeline, killed at {place}"), || {
            let reported = timeline(&scenario.node).unwrap_or_default();
            let mut of_pod = reported.iter().filter(|line| line["pod"] == pod);
            of_pod.any(|line| line["decision"] == "sidecar-ended")
        });
    }
}

/// The lines of the timeline; None if one of them is not complete.
pub(crate) fn timeline(node: &Node) -> Option<Vec<Value>> {
    let text = std::fs::read_to_string(node.run_dir().join("timeline.jsonl")).unwrap();
    let read = |line: &str| serde_json::from_str::<Value>(line).ok();
    text.lines().map(read).collect()
}
