//! `usher report`, on pods whose sidecars run on for a known time.

use std::{
    thread,
    time::{Duration, SystemTime},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use usher_tests::{
    privilege,
    synthetic::{Agent, Node, Pod, PodSpec, spec::RestartPolicy},
    wait::{found_within, patience},
};

use crate::{golden, json as report, run};

const PROXY: &str = "istio-proxy";
/// The number of simultaneous Jobs, and of rounds.
const AT_ONCE: usize = 40;
const ROUNDS: usize = 5;
/// The time that a sidecar runs on after its app.
const RUN_ON: Duration = Duration::from_secs(6);
/// The time that an app runs on after its sidecar.
const GAP: Duration = Duration::from_secs(2);
/// The delay until the test or the agent observes an exit, on a busy machine.
const DELAY: f64 = 0.2;

fn observing() -> Option<Node> {
    let node = privilege::granted().then(Node::new)?;
    node.annotate(&[("usher.dev/mode", "observe"), ("usher.dev/hold", "off")]);
    Some(node)
}

/// A pod that requests half a core and 256 MiB, half of them for its sidecar.
fn requesting(name: &str, namespace: &str) -> PodSpec {
    let mut spec = PodSpec::job(name);
    namespace.clone_into(&mut spec.namespace);
    for container in &mut spec.containers {
        let requests = json!({"requests": {"cpu": "250m", "memory": "128Mi"}});
        container.fields.insert("resources".to_owned(), requests);
    }
    spec
}

fn started(node: &Node, agent: &Agent, spec: &PodSpec) -> Pod {
    let pod = node.run(spec);
    for container in ["app", PROXY] {
        let pid = pod.pid(container);
        found_within(patience(), "the agent to follow the pod", || {
            agent.watches(pid).then_some(())
        });
    }
    pod
}

fn since(earlier: SystemTime, later: SystemTime) -> f64 {
    later.duration_since(earlier).unwrap().as_secs_f64()
}

fn number(cost: &Value, field: &str) -> f64 {
    cost[field].as_f64().unwrap()
}

/// Whether a figure is within one per cent.
fn is_near(figure: f64, truth: f64) -> bool {
    (figure - truth).abs() <= truth / 100.0
}

/// The costs in a namespace, once no sidecar runs on.
fn settled(node: &Node, namespace: &str, pods: usize) -> Value {
    found_within(patience(), "all pods to be counted", || {
        let report = report(node, &["report", "-n", namespace]);
        let cost = report["items"].get(0)?.clone();
        let is_settled = cost["pods"] == pods && cost["running"] == 0;
        is_settled.then_some(cost)
    })
}

#[test]
fn jobs_of_known_length_are_counted_within_one_per_cent() {
    let Some(node) = observing() else { return };
    let agent = Agent::start(&node);
    let none = run(&node, &["report"]);
    assert_eq!(none.code, Some(0), "{none:?}");
    assert!(
        none.stdout.starts_with("no sidecar outlived its apps"),
        "{none:?}"
    );
    let mut truth = 0.0;
    for round in 0..ROUNDS {
        let pods: Vec<Pod> = (0..AT_ONCE)
            .map(|number| {
                let name = format!("job-{round}-{number}");
                started(&node, &agent, &requesting(&name, "shop"))
            })
            .collect();
        for pod in &pods {
            pod.finish("app", 0);
        }
        thread::sleep(RUN_ON);
        if round == 0 {
            let report = report(&node, &["report"]);
            assert_eq!(report["items"][0]["running"], AT_ONCE, "{report}");
        }
        for pod in &pods {
            pod.signal(PROXY, Signal::SIGTERM);
        }
        for pod in &pods {
            truth += since(pod.ended("app").at, pod.ended(PROXY).at);
        }
    }
    let cost = settled(&node, "shop", AT_ONCE * ROUNDS);
    let hours = truth / 3600.0;
    for (field, truth) in [
        ("podHours", hours),
        ("cpuHours", hours / 2.0),
        ("memoryGibHours", hours / 4.0),
        ("sidecarCpuHours", hours / 4.0),
        ("sidecarMemoryGibHours", hours / 8.0),
    ] {
        let figure = number(&cost, field);
        println!("{field}: {figure:.5}, measured from outside {truth:.5}");
        assert!(
            is_near(figure, truth),
            "{field}: {figure} instead of {truth}"
        );
    }
}

#[test]
fn gap_of_a_deleted_pod_is_counted() {
    let Some(node) = observing() else { return };
    let agent = Agent::start(&node);
    let deployed = |name| requesting(name, "shop").policy(RestartPolicy::Always);
    let pod = started(&node, &agent, &deployed("deleted"));
    // Its sidecar fails, and its app ends: no deletion.
    let other = started(&node, &agent, &deployed("crashing"));
    other.signal(PROXY, Signal::SIGTERM);
    other.ended(PROXY);
    pod.mark_deleted();
    pod.signal(PROXY, Signal::SIGTERM);
    let from = pod.ended(PROXY).at;
    thread::sleep(GAP);
    other.finish("app", 1);
    pod.finish("app", 0);
    let truth = since(from, pod.ended("app").at);
    drop(pod);
    let figure = found_within(patience(), "the gap", || {
        let report = report(&node, &["report"]);
        let cost = report["items"].get(0)?;
        let gap = number(cost, "sigtermGapSeconds");
        (gap > 0.0).then_some(gap)
    });
    assert!(
        (figure - truth).abs() < DELAY,
        "{figure} instead of {truth}"
    );
    drop(other);
    thread::sleep(GAP / 4);
    let after = report(&node, &["report"]);
    let gap = number(&after["items"][0], "sigtermGapSeconds");
    assert!((gap - truth).abs() < DELAY, "{after}");
}

#[test]
fn report_of_two_namespaces() {
    let Some(node) = observing() else { return };
    let agent = Agent::start(&node);
    for namespace in ["infra", "shop"] {
        let pod = started(&node, &agent, &requesting("brief", namespace));
        pod.finish("app", 0);
        pod.ended("app");
        pod.signal(PROXY, Signal::SIGTERM);
        pod.ended(PROXY);
        settled(&node, namespace, 1);
    }
    let ran = run(&node, &["report", "-o", "wide"]);
    golden("report.txt", &ran.stdout, &[]);
    let dump = node.run_dir().join("dump.tar.gz");
    let path = dump.to_str().unwrap();
    assert_eq!(run(&node, &["sysdump", "-w", path]).code, Some(0));
    let replayed = run(&node, &["report", "-o", "wide", "--file", path]);
    golden("report.txt", &replayed.stdout, &[]);
    drop(agent);
    let alone = run(&node, &["report"]);
    assert_eq!(alone.code, Some(5), "{alone:?}");
    assert!(alone.stderr.contains("this needs the agent"), "{alone:?}");
}
