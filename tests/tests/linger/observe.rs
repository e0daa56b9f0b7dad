//! Observe mode: how many connections clients open to an app after its stop signal.

use nix::sys::signal::Signal;
use usher_tests::synthetic::runtime::StateDir;
use usher_tests::synthetic::{Agent, Node, Pod, PodSpec, clock, usher};

use crate::auto::server;
use crate::network::{Sender, Traffic};
use crate::{APP, lingering, reason};

/// A stop signal that a process ignores. It ends later than it is stopped, as a proxy does that drains.
const WINCH: &str = "28";

/// A pod that observe mode observes, and that requests nothing.
fn observed(spec: &PodSpec, containers: &[&str]) -> Option<(Node, StateDir, Agent, Pod)> {
    let (node, state) = lingering()?;
    node.annotate(&[("usher.dev/linger", "observe")]);
    let pod = node.run(spec);
    for container in containers {
        state.add(&pod, container);
    }
    let debug = ["--log", "info,usher_agent=debug"].map(str::to_owned);
    let flags = [vec![state.flag()], debug.into()].concat();
    let agent = Agent::start_with(&node, &flags);
    for container in containers {
        let id = pod.id(container);
        clock::eventually("an observed container", || {
            let is_observed = |line: &serde_json::Value| {
                line["message"] == "observes the stop signal of the container"
                    && line["container_id"] == *id
            };
            agent.log().count(is_observed) > 0
        });
    }
    Some((node, state, agent, pod))
}

fn is_sample(line: &serde_json::Value) -> bool {
    line["message"] == "sampled the traffic of a pod"
}

/// Waits until the pod was sampled this often.
fn sampled(agent: &Agent, times: usize) {
    clock::eventually("a sample", || agent.log().count(is_sample) >= times);
}

/// The app serves clients after its stop signal. The pod has no sidecar.
#[test]
fn connections_that_clients_open_after_the_stop_signal_of_the_app() {
    let Some((node, state, agent, pod)) = observed(&PodSpec::new("served").with(server()), &[APP])
    else {
        return;
    };
    let sender = Sender::client(&pod, Traffic::Requests);
    pod.mark_deleted();
    let before = sender.sent();
    state.kill(&pod, APP, WINCH).succeeds();
    sampled(&agent, 1);
    let first = sender.sent();
    clock::eventually("requests", || sender.sent() >= first + 20);
    let after = sender.stop_and_count();
    // The next sample has the last of them. The line of the one before may not have arrived yet.
    let samples = agent.log().count(is_sample);
    sampled(&agent, samples + 2);
    pod.signal(APP, Signal::SIGKILL);
    let why = reason(&agent, "would-pre-stop", &pod);
    let words: Vec<&str> = why.split(' ').collect();
    let counted: u64 = words[2].parse().unwrap();
    // The first sample is made a moment after the signal.
    let (least, most) = (after - first - 1, after - before);
    assert!(
        (least..=most).contains(&counted),
        "{why}: {least} to {most}"
    );
    let report = usher::on(&node, &["report", "-o", "json"]);
    let expected = format!("\"afterStopConnections\": {counted}");
    assert!(report.stdout.contains(&expected), "{why}: {report:?}");
    assert!(agent.holder().is_none());
}
