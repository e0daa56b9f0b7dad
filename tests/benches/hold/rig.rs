//! A node with the agent, and batches of pods on it.

use std::time::{Duration, Instant};

use usher_tests::record::Sample;
use usher_tests::synthetic::catalog::mesh::READY_PORT;
use usher_tests::synthetic::wire::{Capture, Client};
use usher_tests::synthetic::{Agent, Node, Pod, PodSpec};

use crate::arm::{Arm, FAR};

const SIDECAR: &str = "istio-proxy";
/// The time in which the sidecars of a batch become ready one after the other.
const SPREAD: Duration = Duration::from_secs(1);
/// Pods that are created at the same time.
const STARTS: usize = 10;

/// The measurements of a batch.
#[derive(Default)]
pub(crate) struct Times {
    /// From the sidecar's readiness to the established connection.
    pub(crate) connected: Sample,
    /// From the probe's request at the sidecar to the established connection.
    pub(crate) released: Sample,
}

/// The node; all of its pods are held.
pub(crate) struct Rig {
    agent: Agent,
    node: Node,
    made: usize,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let node = Node::new();
        node.annotate(&[("usher.dev/hold", "enforce")]);
        Self {
            agent: Agent::start(&node),
            node,
            made: 0,
        }
    }

    /// Pods of one kind, with sidecars that become ready one after the other.
    pub(crate) fn batch(
        &mut self,
        arm: Arm,
        connections: usize,
        pods: usize,
        hold: Duration,
    ) -> Times {
        let client = Client::to(FAR).times(connections);
        let pods = self.pods(arm, &client, pods);
        let begin = Instant::now();
        let step = SPREAD / u32::try_from(pods.len()).expect("a small number");
        let mut due = begin + hold;
        for pod in &pods {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            be_ready(pod, arm);
            due += step;
        }
        times(pods, arm, connections)
    }

    /// Pods with sidecars that become ready at the same time.
    pub(crate) fn crowd(&mut self, pods: usize, hold: Duration) -> Times {
        let pods = self.pods(Arm::Usher, &Client::to(FAR), pods);
        std::thread::sleep(hold);
        for pod in &pods {
            pod.send_line(SIDECAR, "listen");
        }
        times(pods, Arm::Usher, 1)
    }

    /// Running pods with held connections.
    pub(crate) fn pods(&mut self, arm: Arm, client: &Client, count: usize) -> Vec<Pod> {
        let first = self.made;
        self.made += count;
        let specs: Vec<PodSpec> = (first..self.made)
            .map(|n| arm.pod(&format!("pod-{n}"), client.clone()))
            .collect();
        let pods: Vec<Pod> = specs
            .chunks(STARTS)
            .flat_map(|specs| self.node.run_all(specs))
            .collect();
        if arm == Arm::Usher {
            for pod in &pods {
                self.agent.wait_for("hold-armed", &pod.name());
            }
        }
        pods
    }
}

/// Makes a sidecar listen, and runs the script of its alternative.
pub(crate) fn be_ready(pod: &Pod, arm: Arm) {
    pod.send_line(SIDECAR, "listen");
    if let Some(script) = arm.release() {
        pod.wait_line(SIDECAR, &format!("listening {READY_PORT} "));
        pod.filter(script);
    }
}

fn times(mut pods: Vec<Pod>, arm: Arm, connections: usize) -> Times {
    let mut times = Times::default();
    for pod in &pods {
        let result = pod.client_result("app");
        let well = result.failed.is_empty() && result.connected_ns.len() == connections;
        assert!(well, "a connection failed: {result:?}");
        let line = pod.wait_line(SIDECAR, &format!("listening {READY_PORT} "));
        let ready_ns = line.rsplit(' ').next().and_then(|ns| ns.parse().ok());
        let ready_ns: u64 = ready_ns.expect("the sidecar stamps it");
        let asked = pod.requests(SIDECAR);
        let asked = asked.iter().rfind(|request| request.port == READY_PORT);
        for connected_ns in result.connected_ns {
            let connected = connected_ns.checked_sub(ready_ns);
            let connected = connected.expect("no connection precedes the readiness");
            times.connected.add(Duration::from_nanos(connected));
            // On a busy machine the port may have listened for long enough before the probe is answered.
            let released = asked.and_then(|asked| connected_ns.checked_sub(asked.at_ns));
            if let Some(released) = released.filter(|_| arm == Arm::Usher) {
                times.released.add(Duration::from_nanos(released));
            }
        }
        assert!(
            result.reached == [FAR],
            "not through port {}",
            Capture::PORT
        );
    }
    let is_probed = arm != Arm::Usher || !times.released.is_empty();
    assert!(is_probed, "no probe was answered before its connections");
    for pod in &mut pods {
        pod.begin_removal();
    }
    times
}
