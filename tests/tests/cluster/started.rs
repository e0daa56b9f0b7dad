//! Many starts on a busy node: each is held in time, or reported as missed with its connection held.

use std::process::{Child, Command, Stdio};

use usher_cluster::crowd::{Crowd, Like};

use crate::lab::{self, until};

/// The number of starts; a pipeline has time for a few, a person for a thousand.
const STARTS: &str = "USHER_TEST_STARTS";
const FEW: usize = 40;
/// App containers of a pod, and simultaneous pods.
const APPS: usize = 10;
const PODS: usize = 4;
/// Processes that use all their CPU time.
const BUSY: usize = 4;

/// One such process, in a session and so in a scheduling group of its own. It exits with its parent.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let rounds =
            "while kill -0 \"$1\"; do i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; done";
        let parent = std::process::id().to_string();
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", rounds, "busy", &parent]);
        Self(command.stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // Either call fails only if it has exited already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn every_start_on_a_busy_node_is_held_or_reported_as_missed() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let starts = std::env::var(STARTS).map_or(FEW, |starts| starts.parse().unwrap());
    let namespace = lab.namespace("thousand");
    let like = Like {
        apps: APPS,
        annotations: vec![
            ("usher.dev/hold", "start"),
            ("usher.dev/hold-deadline", "10m"),
        ],
        wrapper: None,
    };
    let busy: Vec<Busy> = (0..BUSY).map(|_| Busy::start()).collect();
    let (mut made, mut early, mut refused) = (0, 0, 0);
    while made < starts {
        let pods = (starts - made).div_ceil(APPS).min(PODS);
        let name = format!("at-{made}");
        let crowd = Crowd::make(&lab.cluster, &namespace, &name, pods, &like).unwrap();
        crowd.started().unwrap();
        for pod in crowd.pods() {
            crowd.open(pod).unwrap();
        }
        for pod in crowd.pods() {
            let ran = crowd.one_ended(pod).unwrap();
            assert_eq!(ran.apps.len(), APPS);
            for (number, app) in ran.apps.iter().enumerate() {
                refused += usize::from(!app.succeeded);
                if app.main_at < ran.ready_at {
                    eprintln!("app-{number} of {}/{pod} ran before: {app:?}", &*namespace);
                    early += 1;
                }
            }
        }
        made += pods * APPS;
        eprintln!("{made} starts, {early} ran before their sidecar was ready, {refused} refused");
    }
    drop(busy);
    let count = |decision: &str| lab.count(&namespace, decision);
    assert_eq!(refused, 0, "connections that were not held either");
    let reported = [count("start-held"), count("start-missed")];
    eprintln!("held and missed, as reported: {reported:?}");
    let (held, missed) = until("a word about every start", || {
        let (held, missed) = (count("start-held"), count("start-missed"));
        (held + missed >= made).then_some((held, missed))
    });
    eprintln!("starts {made}, held {held}, missed {missed}, ran before {early}");
    assert_eq!(held + missed, made, "each start was reported once");
    assert_eq!(early, missed, "the report matches what happened");
    assert_eq!(count("start-not-held"), 0);
}
