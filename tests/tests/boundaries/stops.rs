//! A scenario in which stop signals wait: an app with a pre-stop time of `auto`, and a sidecar that lingers.
//!
//! The pod is deleted, and the runtime sends both signals. The agent drains the sidecar and samples the app's traffic. When the
//! agent is killed, the kernel releases both signals.

use usher_tests::synthetic::catalog::istio;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::runtime::StateDir;
use usher_tests::synthetic::{Agent, ApiServer, ContainerSpec, Doomed, Node, PodSpec};

use crate::after;
use crate::scenario::{APP, PROXY};

/// The actions that only this scenario has.
pub(crate) const KINDS: [&str; 2] = ["drain", "sample-traffic"];
const ENFORCE: [(&str, &str); 2] = [
    ("usher.dev/mode", "enforce"),
    ("usher.dev/linger", "enforce"),
];

/// The whole scenario, and an agent that is killed at this point.
pub(crate) fn killed_at(place: &str) {
    let node = Node::new();
    node.annotate(&ENFORCE);
    let server = ApiServer::start();
    server.annotate(&ENFORCE);
    let state = StateDir::below(&node.run_dir());
    let pod = node.run(&deleted_later());
    let containers = [APP, PROXY];
    for container in containers {
        state.add(&pod, container);
    }
    let doomed = Doomed::start_with(&node, &server, place, &[state.flag()]);
    for container in containers {
        let id = pod.id(container);
        eventually(&format!("armed {container} before {place}"), || {
            doomed.log().count(|line| is_armed(line, &id)) > 0
        });
    }
    pod.mark_deleted();
    let mut signals = containers.map(|container| state.kill(&pod, container, "15"));
    eventually(place, || doomed.is_there());
    for signal in &mut signals {
        assert!(!signal.has_ended(), "no signal waits at {place}");
    }
    doomed.kill();
    let agent = Agent::start_with_api(&node, &server, &[&state.flag()]);
    for signal in signals {
        signal.succeeds();
    }
    for container in containers {
        let code = pod.ended(container).code();
        assert_eq!(code, 0, "{container}, killed at {place}");
    }
    let requests = pod.requests(PROXY);
    let drains = requests.iter().filter(|one| one.line.contains("/drain"));
    assert!(drains.count() <= 1, "killed at {place}: {requests:?}");
    drop(pod);
    after::nothing_is_left(&node, &agent, place);
    let what = format!("an intact timeline, killed at {place}");
    eventually(&what, || after::timeline(&node).is_some());
}

fn deleted_later() -> PodSpec {
    PodSpec::new("deleted")
        .with(ContainerSpec::server(APP, 8080))
        .with(istio::v1_26().container)
        .annotation("usher.dev/linger", "true")
        .annotation("usher.dev/pre-stop", "auto")
}

fn is_armed(line: &serde_json::Value, id: &str) -> bool {
    let message = line["message"].as_str().unwrap_or_default();
    message.starts_with("armed:") && line["container_id"] == id
}
