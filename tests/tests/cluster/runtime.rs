//! The kubelet and containerd are killed and restarted while pods start, are held, run and finish.
//!
//! Neither is needed for the kernel's notifications, and the shims of running containers keep running. So no exit is
//! missed, and no action is repeated. The test reads the timeline, because the agent's log reaches the node's disk
//! through containerd, after the restart.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use usher_cluster::{Component, Signal};
use usher_tests::wait::found_within;

use crate::{
    lab::{self, Alone, Lab, until},
    load,
    workload::{exit_code, runs},
};

const JOBS: usize = 20;
/// The run time of the first app, so that some apps run when half of them have started; then they exit one after the other.
const FIRST: Duration = Duration::from_secs(25);
const STEP: Duration = Duration::from_millis(500);
/// The kubelet or the Job retries starts after a failure of the runtime, with a delay.
const PATIENCE: Duration = Duration::from_secs(180);
/// The number of sidecars that should end while the component is down.
const MEANWHILE: usize = 3;

/// A stopped component, restarted on drop.
struct Away<'lab>(&'lab Lab, Component);

impl<'lab> Away<'lab> {
    fn start(lab: &'lab Lab, component: Component, signal: Signal) -> Self {
        let away = Self(lab, component);
        lab.cluster.stop(component, signal).unwrap();
        away
    }
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        lab::tidy(|| self.0.cluster.start(self.1).unwrap());
    }
}

/// Runs the Jobs while a component is killed twice: while they start, and while they run.
#[expect(clippy::print_stderr, reason = "the figures, for who asks for them")]
fn survives(component: Component, [first, second]: [Signal; 2]) {
    let Some(lab) = lab::alone() else {
        return;
    };
    let namespace = lab.namespace(component.name());
    let lasts = |number: usize| FIRST + STEP * u32::try_from(number).unwrap();
    let job = |number| load::light_job(&namespace, &format!("job-{number}"), lasts(number));
    load::create(&lab, &(0..JOBS).map(job).collect::<Vec<_>>());
    // While they start: some connections wait, and most pods do not exist yet.
    found_within(PATIENCE, "connections that are held", || {
        let lines = lab.holds(&namespace);
        let armed = lines
            .iter()
            .filter(|line| line.text("decision") == "hold-armed");
        (armed.count() >= JOBS / 4).then_some(())
    });
    drop(Away::start(&lab, component, first));
    // While they run.
    load::pods_run(&lab, &namespace, JOBS / 4, PATIENCE);
    let away = Away::start(&lab, component, second);
    let before = ended(&lab, &namespace);
    // The kernel and the shims still report the exits.
    found_within(PATIENCE, "the end of sidecars meanwhile", || {
        (ended(&lab, &namespace) >= before + MEANWHILE).then_some(())
    });
    assert!(!lab.cluster.runs(component));
    drop(away);
    load::all_complete(&lab, &namespace, JOBS);
    let pods = load::pods_are(&lab, &namespace, "Succeeded", JOBS);
    load::each_was_quit_once(&lab, &namespace, &pods);
    let list = ["-n", &*namespace, "get", "pods"];
    let all = lab.cluster.kubectl_json(&list).unwrap();
    let all = all["items"].as_array().unwrap();
    // If the runtime could not start the sidecar, the app has nothing to wait for. If the restarted runtime does not
    // know a running app, the kubelet may or may not kill that app for good.
    let refused = |pod: &&Value| {
        let codes = (exit_code(pod, "app"), exit_code(pod, load::SIDECAR));
        codes == (&json!(1), &json!(0)) && runs(pod, "app") == 1
    };
    let refused: Vec<&Value> = all.iter().filter(refused).collect();
    assert!(refused.is_empty(), "not held: {refused:#?}");
    eprintln!(
        "{component} ended by {first} and {second}: {JOBS} Jobs complete, {} pods made for them",
        all.len()
    );
    ready_again(&lab);
}

/// The number of exited sidecars of a namespace, by the agent's timeline.
fn ended(lab: &Lab, namespace: &str) -> usize {
    let root = lab.cluster.node_root().expect("the node is up");
    // The file may be replaced at this moment.
    let text = fs::read_to_string(root.join("run/usher/timeline.jsonl")).unwrap_or_default();
    let prefix = format!("\"pod\":\"{namespace}/");
    text.lines()
        .filter(|line| line.contains(&prefix) && line.contains("\"sidecar-ended\""))
        .count()
}

fn ready_again(lab: &Alone) {
    let status = ["-n", lab::USHER, "rollout", "status", "daemonset/usher"];
    until("the agent to be ready again", || {
        let args = [&status[..], &["--timeout=1s"]].concat();
        lab.cluster.kubectl(&args).ok()
    });
}

#[test]
fn kubelet_restart_loses_no_quit_and_no_hold() {
    survives(Component::Kubelet, [Signal::SIGTERM, Signal::SIGKILL]);
}

#[test]
fn containerd_restart_loses_no_quit_and_no_hold() {
    survives(Component::Containerd, [Signal::SIGKILL, Signal::SIGTERM]);
}
