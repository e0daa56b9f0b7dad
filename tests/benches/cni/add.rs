//! The measured calls.

use std::time::Duration;

use nix::sys::signal::Signal;
use usher_tests::record::{Limit, Record, Sample};
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::wire::Listen;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

/// From the pod's cgroup to its network namespace, as measured with containerd:
/// the time in which the agent can read the pod from the kubelet.
const PACE: Duration = Duration::from_millis(150);
/// Pods that are created at the same time, without that delay.
const BURST: usize = 10;
/// Calls with a stopped agent: each takes its whole timeout.
const STOPPED: usize = 5;

pub(crate) fn measure(record: &mut Record, count: usize) {
    let node = Node::new();
    node.annotate(&[("usher.dev/hold", "enforce")]);
    let absent = calls(&node, count, held);
    let agent = Agent::start(&node);
    let armed = calls(&node, count, held);
    let nothing = calls(&node, count, bare);
    let at_once = burst(&node, count);
    agent.signal(Signal::SIGSTOP);
    let stopped = calls(&node, STOPPED, held);
    agent.signal(Signal::SIGCONT);
    agent.kill();
    let dead = calls(&node, count, held);
    let p50 = |sample: &Sample| sample.quantile_ms(0.50);
    let against = ("no agent, no socket", p50(&absent));
    record.section("CNI ADD, what usher-cni adds");
    record.times("hold armed", &armed);
    record.times("nothing to hold", &nothing);
    record.times("no agent, no socket", &absent);
    record.times("agent dead, its socket there", &dead);
    record.times("10 at once, cgroup and ADD together", &at_once);
    record
        .limit(
            "cni.p50",
            "hold armed, p50, ms",
            p50(&armed),
            Limit::AtMost(2.0),
        )
        .against(against.0, against.1);
    let p99 = armed.quantile_ms(0.99);
    record
        .limit("cni.p99", "hold armed, p99, ms", p99, Limit::AtMost(10.0))
        .against(against.0, absent.quantile_ms(0.99));
    for (what, sample) in [("no agent", &absent), ("agent dead", &dead)] {
        let what = format!("{what}, p50, ms");
        record.limit("cni.absent", &what, p50(sample), Limit::AtMost(2.0));
    }
    record.section("CNI ADD, agent stopped, timeout 500 ms");
    record.times("agent stopped", &stopped);
}

/// Pods one after the other, as an idle node creates them.
fn calls(node: &Node, count: usize, spec: fn(&str) -> PodSpec) -> Sample {
    let mut sample = Sample::default();
    for n in 0..count {
        let pod = node.create(&spec(&format!("added-{n}")));
        let added = pod.added(1);
        assert_eq!(added.code, Some(0), "{added:?}");
        sample.add(added.took);
        pod.wait_running();
        // Waits for the removal, so that no teardown runs during the measured calls.
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
    bare(name).with(mesh::proxy(Listen::OnCommand))
}

fn bare(name: &str) -> PodSpec {
    let mut spec = PodSpec::new(name)
        .with(ContainerSpec::app("app"))
        .impatient();
    spec.network_delay = PACE;
    spec
}
