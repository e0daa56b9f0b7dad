//! A node with a given number of pods of one kind.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use usher_tests::synthetic::wire::Pace;
use usher_tests::synthetic::{Agent, Node, Pod, PodSpec};

pub(crate) const SIDECAR: &str = "istio-proxy";
/// The agent is settled after it used no more than [`STILL`] for this time.
const QUIET: Duration = Duration::from_millis(150);
const STILL: Duration = Duration::from_micros(300);
const PATIENCE: Duration = Duration::from_secs(60);
/// Pods that are created at the same time: a kubelet does not start hundreds
/// at once either.
const STARTS: usize = 8;

/// The pods, and their node.
pub(crate) struct Crowd {
    // Dropped before their node.
    pub(crate) pods: VecDeque<Pod>,
    pub(crate) node: Node,
    size: usize,
    spec: fn(&str) -> PodSpec,
    made: usize,
}

impl Crowd {
    /// An empty node for this number of pods.
    pub(crate) fn new(size: usize, spec: fn(&str) -> PodSpec) -> Self {
        Self {
            pods: VecDeque::new(),
            node: Node::new(),
            size,
            spec,
            made: 0,
        }
    }

    /// Fills the node again.
    pub(crate) fn refill(&mut self) {
        let missing = self.size - self.pods.len();
        let specs: Vec<PodSpec> = (0..missing).map(|_| self.next()).collect();
        for specs in specs.chunks(STARTS) {
            self.pods.extend(self.node.run_all(specs));
        }
    }

    /// The spec of the next pod, which is not created yet.
    ///
    /// The runtime's own work after an exit on a node comes some
    /// milliseconds later; so do the reports of this bench, which would otherwise
    /// compete with the measurement.
    pub(crate) fn next(&mut self) -> PodSpec {
        let mut spec = (self.spec)(&format!("job-{}", self.made));
        self.made += 1;
        for container in &mut spec.containers {
            container.pace = Some(Pace {
                removal: Pace::RUNC.removal,
                ..container.pace.unwrap_or_default()
            });
        }
        spec
    }

    /// Waits until the agent knows the crowd and is idle.
    pub(crate) fn settle(&self, agent: &Agent) {
        let size = u32::try_from(self.pods.len()).expect("a small number");
        agent.wait_metric("usher_pods", "", |pods| {
            (pods - f64::from(size)).abs() < 0.5
        });
        let started = Instant::now();
        loop {
            let before = agent.usage().cpu;
            std::thread::sleep(QUIET);
            if agent.usage().cpu - before < STILL {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "the agent does not settle");
        }
    }

    /// Removes pods together, which is faster than one after the other.
    pub(crate) fn clear(&mut self) {
        for pod in &mut self.pods {
            pod.begin_removal();
        }
        self.pods.clear();
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.clear();
    }
}

/// From an app's last instruction to the request at the sidecar; waits for both to exit.
pub(crate) fn latency(pod: &Pod) -> Duration {
    let request = pod.request(SIDECAR);
    pod.ended(SIDECAR);
    let exit_ns = pod.ended("app").exit_ns().expect("the app stamps its exit");
    let took = request.at_ns.checked_sub(exit_ns);
    Duration::from_nanos(took.expect("no request precedes the exit"))
}
