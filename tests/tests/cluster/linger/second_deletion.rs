//! A pod that is deleted again while the stop signal of its sidecar waits: with a shorter grace period, or by force.
//! The app ignores its stop signal.

use std::time::{Duration, Instant};

use usher_cluster::workload::app_container;

use super::{run_declared, wait_armed};
use crate::{
    lab::{self, Lab, Namespace, Shared, until},
    workload::{container, pod},
};

/// The grace period of the first deletion.
const FIRST: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(6);
/// A little longer than usher holds a signal without a list that confirms the deletion: 3 s.
const UNCONFIRMED: Duration = Duration::from_secs(4);
/// What usher and a slow node may add. usher queries the kubelet every 2 s, and kills one second after the deadline.
const SLACK: Duration = Duration::from_secs(45);

/// A deleted pod whose sidecar's stop signal waits, that sidecar's id, and when the pod was deleted.
fn held(lab: &Shared, name: &str, how_it_ends: &[&str]) -> (Namespace, String, Instant) {
    let namespace = lab.namespace(name);
    let sidecar = [&["--listen", "9000"], how_it_ends].concat();
    let sidecar = app_container("side", &sidecar);
    let app = ["--listen", "8080", "--ignore-term"];
    run_declared(lab, &namespace, FIRST, &app, sidecar);
    wait_armed(lab, &namespace);
    let pod = pod(lab, &namespace).unwrap();
    let id = container(&pod, "side")["containerID"].as_str().unwrap();
    let id = id.trim_start_matches("containerd://").to_owned();
    assert!(has_process(lab, &id));
    let deleted = Instant::now();
    delete(lab, &namespace, &[]);
    lab.decided(&namespace, "linger-held");
    let held = Instant::now();
    until("the agent's list with the first deletion", || {
        (held.elapsed() > UNCONFIRMED).then_some(())
    });
    let released = lab.count(&namespace, "linger-released");
    assert_eq!(released, 0, "the kubelet did not reply in time");
    (namespace, id, deleted)
}

fn delete(lab: &Lab, namespace: &str, how: &[&str]) {
    let delete = ["-n", namespace, "delete", "pod", "pod", "--wait=false"];
    lab.cluster.kubectl(&[&delete[..], how].concat()).unwrap();
}

fn wait_for_its_end(lab: &Lab, id: &str) {
    until("the end of the sidecar's processes", || {
        (!has_process(lab, id)).then_some(())
    });
}

/// Whether a container has a process, by the cgroups of the node's processes.
fn has_process(lab: &Lab, id: &str) -> bool {
    let find = format!("grep -ls {id} /proc/[0-9]*/cgroup; true");
    let found = lab.cluster.in_node(&["sh", "-c", &find]).unwrap();
    !found.trim().is_empty()
}

/// The kubelet does not shorten the stop that it has begun.
#[test]
fn signal_is_released_at_the_shorter_deadline_and_the_first_grace_period_stays() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let (namespace, id, deleted) = held(&lab, "linger-shorter", &["--ignore-term"]);
    let grace = format!("--grace-period={}", SECOND.as_secs());
    delete(&lab, &namespace, &[&grace]);
    let released = lab.decided(&namespace, "linger-released");
    assert!(deleted.elapsed() < FIRST, "{:?}", deleted.elapsed());
    let reason = released.text("reason");
    assert!(
        reason.starts_with("the rest of the pod's grace period"),
        "{reason}"
    );
    wait_for_its_end(&lab, &id);
    let took = deleted.elapsed();
    eprintln!("the sidecar ended {took:?} after the first deletion");
    assert!(took >= FIRST, "{took:?}");
    assert!(took < FIRST + SLACK, "{took:?}");
    until("the end of the pod", || {
        pod(&lab, &namespace).is_none().then_some(())
    });
}

/// Its app runs on, for as long as the kubelet's grace period.
#[test]
fn forced_deletion_releases_the_signal() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let (namespace, id, _deleted) = held(&lab, "linger-forced", &["--term-code", "0"]);
    let begun = Instant::now();
    delete(&lab, &namespace, &["--force", "--grace-period=0"]);
    wait_for_its_end(&lab, &id);
    let took = begun.elapsed();
    eprintln!("the sidecar ended {took:?} after the forced deletion");
    assert!(took < SLACK, "{took:?}");
    let released = lab.decided(&namespace, "linger-released");
    let reason = released.text("reason");
    assert!(
        reason.starts_with("the kubelet no longer lists the pod"),
        "{reason}"
    );
}
