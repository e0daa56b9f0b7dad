//! Pods that are removed at any moment leave nothing in the agent: no
//! descriptor, no watch, no network namespace, no repeated error.
//!
//! Alone in its binary: it counts resources of the whole machine.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use usher_tests::privilege;
use usher_tests::synthetic::inventory::Inventory;
use usher_tests::synthetic::wire::Pace;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec, process};
use usher_tests::wait::{fewer, patience};

const PODS: usize = 200;
/// The number of pods that live at the same time.
const CROWD: usize = 10;

/// A short sequence of numbers that is the same in every run (Lehmer).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0 * 48_271 % 0x7fff_ffff;
        self.0 % limit
    }
}

fn complaints(agent: &Agent) -> usize {
    agent
        .log()
        .count(|line| line["level"] == "WARN" || line["level"] == "ERROR")
}

fn spec(n: usize, dice: &mut Dice) -> PodSpec {
    let mut spec = PodSpec::job(&format!("brief-{n}"));
    for container in &mut spec.containers {
        if n.is_multiple_of(2) {
            container.pace = Some(Pace::RUNC);
        }
    }
    if n.is_multiple_of(3) {
        let life = Duration::from_micros(dice.below(20_000));
        spec.containers[0] = ContainerSpec::brief_app("app", life, 0);
    }
    spec
}

fn quit(agent: &Agent, pod: &Pod) {
    pod.finish("app", 0);
    pod.ended("istio-proxy");
    agent.wait_for("sidecar-ended", &pod.name());
}

/// Waits until a value is back at its start.
fn returns_to<T: PartialEq + std::fmt::Debug>(what: &str, wanted: &T, now: impl Fn() -> T) {
    let deadline = Instant::now() + patience();
    loop {
        let found = now();
        if found == *wanted {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{what}: {found:?}, not {wanted:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn two_hundred_removed_pods_leave_nothing() {
    if !privilege::granted() {
        return;
    }
    let node = Node::new();
    node.annotate(&[("usher.dev/mode", "enforce")]);
    let agent = Agent::start(&node);
    // The first pod creates the agent's permanent resources.
    let first = node.run(&PodSpec::job("first"));
    agent.wait_metric("usher_decisions_total", "decision=\"waiting\"", |count| {
        count > 0.5
    });
    // A running container costs a descriptor for its process, and none for its namespace.
    returns_to("networks held for a pod", &BTreeSet::new(), || {
        process::held_networks(agent.pid())
    });
    quit(&agent, &first);
    drop(first);
    agent.wait_metric("usher_pods", "", |pods| pods < 0.5);
    let networks = process::all_networks();
    let descriptors = agent.open_descriptors();
    let watches = Inventory::of(agent.pid()).watches;

    let mut dice = Dice(7);
    let mut seen = BTreeSet::new();
    let mut living: Vec<(Instant, Pod)> = Vec::new();
    let pods = fewer(PODS);
    for n in 0..pods {
        let pod = node.create(&spec(n, &mut dice));
        // The time of the removal is random, so that it meets every state of a pod.
        let life = Duration::from_micros(dice.below(120_000));
        living.push((Instant::now() + life, pod));
        while living.len() >= CROWD || (n + 1 == pods && !living.is_empty()) {
            living.sort_by_key(|(due, _)| std::cmp::Reverse(*due));
            let (due, mut pod) = living.pop().unwrap();
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            seen.extend(pod.network());
            if dice.below(2) == 0 {
                pod.begin_removal();
            } else {
                // Kills the whole pod from outside at once, as a broken runtime does.
                drop(std::fs::write(pod.cgroup().join("cgroup.kill"), "1"));
            }
        }
    }

    agent.wait_metric("usher_pods", "", |pods| pods < 0.5);
    // A descriptor that was open for a moment then may be missing now.
    returns_to("more descriptors", &0, || {
        agent.open_descriptors().saturating_sub(descriptors)
    });
    returns_to("inotify watches", &watches, || {
        Inventory::of(agent.pid()).watches
    });
    returns_to("held networks", &BTreeSet::new(), || {
        process::held_networks(agent.pid())
    });
    seen.retain(|network| !networks.contains(network));
    // On a slow machine many pods are removed before they have a network.
    assert!(seen.len() > pods / 10, "{}", seen.len());
    returns_to("living networks", &0, || {
        process::all_networks().intersection(&seen).count()
    });

    // The agent still works, and does not log the errors for ever. The log has all earlier lines with the end of a pod.
    quit(&agent, &node.run(&PodSpec::job("next")));
    let before = complaints(&agent);
    quit(&agent, &node.run(&PodSpec::job("last")));
    assert_eq!(complaints(&agent), before, "{:#?}", agent.log().lines());
}
