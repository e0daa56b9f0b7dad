//! The agent has no free memory, and almost no CPU.

use std::process::{Child, Command, Stdio};

use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::limit::{Controller, Limited};
use usher_tests::synthetic::{Agent, Pod, PodSpec, process};

use crate::{SIDECAR, enforcing, finish_and_quit};

/// The limit of the agent's container in the chart.
pub(crate) const CHART_LIMIT: u64 = 96 * 1024 * 1024;
/// The free memory, which is too little for the pods.
const MEMORY: u64 = 256 * 1024;
/// In hundredths of a CPU: the chart's request.
const REQUEST: u64 = 10;
/// More than the processors of a small node, so that the agent has even less than its request.
const NEIGHBOURS: u64 = 1000;
const PODS: usize = 20;

fn jobs(name: &str) -> Vec<PodSpec> {
    let names = (0..PODS).map(|n| format!("{name}-{n}"));
    names.map(|name| PodSpec::job(&name)).collect()
}

/// The kernel kills the agent at an arbitrary point, as at the limit of its container. The next agent has the limit of
/// the chart and the same pods, and completes the work.
#[test]
fn killed_at_its_memory_limit() {
    let Some(node) = enforcing() else { return };
    let limited = Limited::make(Controller::Memory, "memory").expect("a controller of memory");
    let agent = Agent::start(&node);
    let before = node.run_all(&jobs("before"));
    let other = node.run(&PodSpec::job("other"));
    finish_and_quit(&agent, &other);
    // They keep the memory that they have: only more of it counts.
    for process in [agent.pid(), agent.worker()] {
        limited.take(process);
    }
    limited.set(MEMORY);
    for pod in &before {
        pod.finish("app", 0);
    }
    let mut during: Vec<Pod> = Vec::new();
    eventually("the agent to be killed", || {
        matches!(process::state(agent.pid()), None | Some('Z'))
            || agent
                .log()
                .count(|line| line["decision"] == "sidecar-ended")
                > PODS
    });
    while !matches!(process::state(agent.pid()), None | Some('Z')) {
        assert!(during.len() < 20 * PODS, "it needs no memory");
        during.extend(node.run_all(&jobs(&format!("during-{}", during.len()))));
    }
    agent.kill();
    for pod in &during {
        pod.finish("app", 0);
    }
    limited.set(CHART_LIMIT);
    let agent = Agent::start_limited(&node, None, &limited);
    for pod in before.iter().chain(&during) {
        assert_eq!(pod.ended(SIDECAR).code(), 0);
    }
    let after = node.run(&PodSpec::job("after"));
    finish_and_quit(&agent, &after);
    assert!(!matches!(process::state(agent.pid()), None | Some('Z')));
}

/// A program that never sleeps.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let mut shell = Command::new("sh");
        // The shell ends even if the test is killed.
        shell.args(["-c", "while kill -0 $PPID; do :; done"]);
        Self(
            shell
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The agent has its CPU request, and other processes use the rest: pods are still quit.
#[test]
fn cpu_request_suffices_on_a_busy_node() {
    let Some(node) = enforcing() else { return };
    let own = Limited::make(Controller::Cpu, "own").expect("a controller of processors");
    let neighbours = Limited::make(Controller::Cpu, "busy").expect("a controller of processors");
    own.set(REQUEST);
    neighbours.set(NEIGHBOURS);
    let agent = Agent::start_limited(&node, None, &own);
    let worker = agent.worker();
    let processors = std::thread::available_parallelism().unwrap().get();
    let busy: Vec<Busy> = (0..2 * processors).map(|_| Busy::start()).collect();
    for one in &busy {
        neighbours.take(one.0.id());
    }
    let pods = node.run_all(&jobs("starved"));
    for pod in &pods {
        pod.finish("app", 0);
    }
    for pod in &pods {
        // Its request may be late, so that the next step follows.
        assert_eq!(pod.ended(SIDECAR).code(), 0);
        agent.wait_for("sidecar-ended", &pod.name());
        assert!(!pod.requests(SIDECAR).is_empty());
    }
    // A worker that waits for a processor is not replaced: the next one would wait as well.
    assert_eq!(agent.worker(), worker);
    drop(busy);
}
