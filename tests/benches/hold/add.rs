//! What the plugin adds to a pod's CNI ADD: its whole process, from the fork to
//! the end.

use std::time::Duration;

use nix::sys::signal::Signal;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::wire::Listen;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

use crate::Effort;
use crate::sample::Sample;
use crate::table::{Limit, Table};

/// From the pod's cgroup to its network namespace, as measured with containerd:
/// time for the agent to ask the kubelet what the pod is.
const PACE: Duration = Duration::from_millis(150);
/// Pods that are made at the same time, and without that time.
const BURST: usize = 10;
/// Of an agent that does not answer: each call takes its whole timeout.
const STOPPED: usize = 5;

pub(crate) fn measure(table: &mut Table, effort: &Effort) {
    table.section("CNI ADD, what usher-cni adds");
    let node = Node::new();
    node.annotate(&[("usher.dev/hold", "enforce")]);
    let absent = calls(&node, effort.calls, held);
    table.times("no agent, no socket", &absent);
    table.limit("p50, ms", absent.quantile_ms(0.50), Limit::AtMost(2.0));
    let agent = Agent::start(&node);
    let sample = calls(&node, effort.calls, held);
    table.times("hold armed", &sample);
    table.limit("p50, ms", sample.quantile_ms(0.50), Limit::AtMost(2.0));
    table.limit("p99, ms", sample.quantile_ms(0.99), Limit::AtMost(10.0));
    let sample = calls(&node, effort.calls, bare);
    table.times("nothing to hold", &sample);
    table.limit("p50, ms", sample.quantile_ms(0.50), Limit::AtMost(2.0));
    table.times(
        "10 at once, cgroup and ADD together",
        &burst(&node, effort.calls),
    );
    agent.signal(Signal::SIGSTOP);
    let sample = calls(&node, STOPPED, held);
    table.times("agent stopped, timeout 500 ms", &sample);
    agent.signal(Signal::SIGCONT);
    agent.kill();
    let sample = calls(&node, effort.calls, held);
    table.times("agent dead, its socket there", &sample);
    table.limit("p50, ms", sample.quantile_ms(0.50), Limit::AtMost(2.0));
}

/// Pods one after the other, as a node makes them when it is not in a hurry.
fn calls(node: &Node, count: usize, spec: fn(&str) -> PodSpec) -> Sample {
    let mut sample = Sample::default();
    for n in 0..count {
        let pod = node.create(&spec(&format!("added-{n}")));
        let added = pod.added(1);
        assert_eq!(added.code, Some(0), "{added:?}");
        sample.add(added.took);
        pod.wait_running();
        // Its end is waited for: beside the measured calls nothing is torn down.
        drop(pod);
    }
    sample
}

fn burst(node: &Node, count: usize) -> Sample {
    let mut sample = Sample::default();
    for round in 0..count.div_ceil(BURST) {
        let at_once = |n| {
            let mut spec = held(&format!("burst-{round}-{n}"));
            spec.network_delay = Duration::ZERO;
            node.create(&spec)
        };
        let pods: Vec<Pod> = (0..BURST).map(at_once).collect();
        for pod in &pods {
            sample.add(pod.added(1).took);
        }
    }
    sample
}

fn held(name: &str) -> PodSpec {
    bare(name).with(mesh::proxy(Listen::WhenTold))
}

fn bare(name: &str) -> PodSpec {
    let mut spec = PodSpec::new(name)
        .with(ContainerSpec::app("app"))
        .announced();
    spec.network_delay = PACE;
    spec
}
