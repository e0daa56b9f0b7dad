//! Pids that are reused all the time.
//!
//! In a machine of the test's own the kernel has few pids
//! (`/proc/sys/kernel/pid_max`, one for each pid namespace since Linux 6.14), and a pod starts processes as fast as
//! possible: a pid belongs to another process within a second. The sidecars of the other pods get signals.

use std::fs;

use usher_tests::privilege;
use usher_tests::synthetic::wire::Program;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec, machine};

use crate::{APP, SIDECAR, enforced, is_sound, terms};

/// Enough for the processes here, and few enough to be reused: the kernel's minimum is 301.
const PIDS: &str = "1200";
const PID_MAX: &str = "/proc/sys/kernel/pid_max";
const STORMS: [&str; 2] = ["storm", "other-storm"];
const ROUNDS: usize = 3;
const PODS: usize = 5;

#[test]
fn no_signal_to_another_process() {
    if !privilege::granted() || !machine::entered("pids::no_signal_to_another_process") {
        return;
    }
    // An older kernel has one limit for the whole machine, which the test must not change.
    let few =
        fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|release| is_new(&release));
    if few {
        fs::write(PID_MAX, PIDS).unwrap();
    }
    let node = enforced(Node::new());
    let agent = Agent::start(&node);
    let busy = STORMS.iter().fold(PodSpec::new("busy"), |spec, name| {
        let storm = ContainerSpec::new(
            name,
            "registry.example/team/report:7.4.1",
            Program::Execs(1_500),
        );
        spec.with(storm)
    });
    let busy = node.run(&busy);
    for round in 0..ROUNDS {
        let specs: Vec<PodSpec> = (0..PODS)
            .map(|number| {
                let spec = PodSpec::job(&format!("pod-{round}-{number}"));
                spec.annotation("usher.dev/sidecars", "istio-proxy=SIGTERM")
            })
            .collect();
        let pods = node.run_all(&specs);
        for pod in &pods {
            pod.finish(APP, 0);
        }
        for pod in &pods {
            assert_eq!(pod.ended(SIDECAR).code(), 0);
            agent.wait_for("sidecar-ended", &pod.name());
            assert_eq!(terms(pod, SIDECAR), 1);
        }
    }
    for storm in STORMS {
        busy.send_line(storm, "enough");
        assert_eq!(busy.ended(storm).code(), 0);
        assert_eq!(struck(&busy, storm), Vec::<String>::new());
    }
    is_sound(&agent);
}

/// The signals that ended processes of the storm.
fn struck(pod: &Pod, storm: &str) -> Vec<String> {
    let lines = pod.lines(storm).into_iter();
    lines.filter(|line| line.starts_with("struck ")).collect()
}

fn is_new(release: &str) -> bool {
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(14))
}
