//! What is measured: a node with the agent, and a bare one with wrappers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use usher_tests::synthetic::clock::monotonic_ns;
use usher_tests::synthetic::wire::Pace;
use usher_tests::synthetic::{Agent, Node, Pod, PodSpec};

use crate::sample::Sample;

const SIDECAR: &str = "istio-proxy";
/// The agent counts as settled when it used no more than [`STILL`] for so long.
const QUIET: Duration = Duration::from_millis(150);
const STILL: Duration = Duration::from_micros(300);
const PATIENCE: Duration = Duration::from_secs(60);
/// Pods that are created at the same time: a kubelet does not start hundreds
/// at once either.
const STARTS: usize = 8;
/// Time for all apps of a burst to have read when to end.
const LEAD: Duration = Duration::from_millis(500);

/// Two nodes with as many pods each.
pub(crate) struct Rig {
    // Dropped in this order: pods before their nodes, the agent before both.
    agent: Agent,
    agent_pods: VecDeque<Pod>,
    wrapper_pods: VecDeque<Pod>,
    node: Node,
    bare: Node,
    crowd: usize,
    made: usize,
}

impl Rig {
    /// Two nodes with this many pods each.
    pub(crate) fn new(crowd: usize) -> Self {
        let (node, bare) = (Node::new(), Node::new());
        node.annotate(&[("usher.dev/mode", "enforce")]);
        let agent = Agent::start(&node);
        let mut rig = Self {
            agent,
            agent_pods: VecDeque::new(),
            wrapper_pods: VecDeque::new(),
            node,
            bare,
            crowd,
            made: 0,
        };
        rig.refill();
        rig
    }

    pub(crate) const fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Makes the crowds whole again, and waits until the agent has seen them.
    pub(crate) fn refill(&mut self) {
        let missing = self.crowd - self.agent_pods.len();
        let pods = self.specs(missing, PodSpec::job);
        for pods in pods.chunks(STARTS) {
            self.agent_pods.extend(self.node.run_all(pods));
        }
        let missing = self.crowd - self.wrapper_pods.len();
        let pods = self.specs(missing, PodSpec::wrapped_job);
        for pods in pods.chunks(STARTS) {
            self.wrapper_pods.extend(self.bare.run_all(pods));
        }
        self.settle();
    }

    fn specs(&mut self, count: usize, spec: impl Fn(&str) -> PodSpec) -> Vec<PodSpec> {
        let first = self.made;
        self.made += count;
        (first..self.made)
            .map(|n| at_the_runtimes_pace(spec(&format!("job-{n}"))))
            .collect()
    }

    /// Waits until the agent knows the crowd and has nothing left to do.
    pub(crate) fn settle(&self) {
        let crowd = u32::try_from(self.crowd).expect("a small number");
        self.agent.wait_metric("usher_pods", "", |pods| {
            (pods - f64::from(crowd)).abs() < 0.5
        });
        let started = Instant::now();
        loop {
            let before = self.agent.usage().cpu;
            std::thread::sleep(QUIET);
            if self.agent.usage().cpu - before < STILL {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "the agent does not settle");
        }
    }

    /// One exit of an app whose sidecar the agent ends.
    pub(crate) fn agent_exit(&mut self) -> Duration {
        exit(&self.agent_pods.pop_front().expect("the crowd is whole"))
    }

    /// One exit of an app below a wrapper.
    pub(crate) fn wrapper_exit(&mut self) -> Duration {
        exit(&self.wrapper_pods.pop_front().expect("the crowd is whole"))
    }

    /// The exit of all apps whose sidecars the agent ends.
    pub(crate) fn agent_burst(&mut self, sample: &mut Sample) {
        burst(&self.agent_pods, sample);
        clear(&mut self.agent_pods);
    }

    /// The exit of all apps below wrappers.
    pub(crate) fn wrapper_burst(&mut self, sample: &mut Sample) {
        burst(&self.wrapper_pods, sample);
        clear(&mut self.wrapper_pods);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        clear(&mut self.agent_pods);
        clear(&mut self.wrapper_pods);
    }
}

/// What follows an exit on a node, the runtime's own work, comes some
/// milliseconds later; so do the reports of this bench, which would otherwise
/// compete with what is measured.
fn at_the_runtimes_pace(mut spec: PodSpec) -> PodSpec {
    for container in &mut spec.containers {
        container.pace = Some(Pace {
            removal: Pace::RUNC.removal,
            ..container.pace.unwrap_or_default()
        });
    }
    spec
}

fn exit(pod: &Pod) -> Duration {
    pod.finish("app", 0);
    latency(pod)
}

fn burst(pods: &VecDeque<Pod>, sample: &mut Sample) {
    let lead = u64::try_from(LEAD.as_nanos()).expect("half a second");
    let at_ns = monotonic_ns() + lead;
    for pod in pods {
        pod.finish_at("app", 0, at_ns);
    }
    // Who waits for reports is woken by each; not during the burst.
    std::thread::sleep(LEAD * 2);
    for pod in pods {
        sample.add(latency(pod));
    }
}

fn latency(pod: &Pod) -> Duration {
    let request = pod.request(SIDECAR);
    pod.ended(SIDECAR);
    let exit_ns = pod.ended("app").exit_ns().expect("the app stamps its exit");
    Duration::from_nanos(request.at_ns.saturating_sub(exit_ns))
}

/// Takes pods away together, which is faster than one after the other.
fn clear(pods: &mut VecDeque<Pod>) {
    for pod in pods.iter_mut() {
        pod.begin_removal();
    }
    pods.clear();
}
