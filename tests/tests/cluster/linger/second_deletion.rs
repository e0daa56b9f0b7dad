//! A pod that is deleted again while the stop signal of its sidecar waits: with a shorter grace period, or by force.
//! The app ignores its stop signal.

use std::time::{Duration, Instant};

use usher_cluster::workload::app_container;

use super::{run_declared, wait_armed};
use crate::{
    lab::{self, Lab, Namespace, Shared, until},
    workload::{container, pod},
};

/// The grace period of the first deletion. No sidecar may last that long.
const FIRST: Duration = Duration::from_secs(90);
const SECOND: Duration = Duration::from_secs(6);
/// What usher and a slow node may add. usher queries the kubelet every 2 s, and kills one second after the deadline.
const SLACK: Duration = Duration::from_secs(45);

/// A deleted pod whose sidecar's stop signal waits, and that sidecar's id.
fn held(lab: &Shared, name: &str, how_it_ends: &[&str]) -> (Namespace, String) {
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
    delete(lab, &namespace, &[]);
    lab.decided(&namespace, "linger-held");
    (namespace, id)
}

fn delete(lab: &Lab, namespace: &str, how: &[&str]) {
    let delete = ["-n", namespace, "delete", "pod", "pod", "--wait=false"];
    lab.cluster.kubectl(&[&delete[..], how].concat()).unwrap();
}

/// Deletes the pod again. Returns the duration until the sidecar has no process.
fn delete_again(lab: &Lab, namespace: &str, id: &str, how: &[&str]) -> Duration {
    let begun = Instant::now();
    delete(lab, namespace, how);
    until("the end of the sidecar's processes", || {
        (!has_process(lab, id)).then_some(())
    });
    begun.elapsed()
}

/// Whether a container has a process, by the cgroups of the node's processes.
fn has_process(lab: &Lab, id: &str) -> bool {
    let find = format!("grep -ls {id} /proc/[0-9]*/cgroup; true");
    let found = lab.cluster.in_node(&["sh", "-c", &find]).unwrap();
    !found.trim().is_empty()
}

#[test]
fn shorter_grace_period_is_kept() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let (namespace, id) = held(&lab, "linger-shorter", &["--ignore-term"]);
    let grace = format!("--grace-period={}", SECOND.as_secs());
    let took = delete_again(&lab, &namespace, &id, &[&grace]);
    eprintln!("the sidecar ended {took:?} after the second deletion");
    // The kubelet gives the whole second grace period from its own notice of the deletion on.
    assert!(took >= SECOND, "{took:?}");
    assert!(took < SECOND + SLACK, "{took:?}");
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
    let (namespace, id) = held(&lab, "linger-forced", &["--term-code", "0"]);
    let took = delete_again(&lab, &namespace, &id, &["--force", "--grace-period=0"]);
    eprintln!("the sidecar ended {took:?} after the forced deletion");
    assert!(took < SLACK, "{took:?}");
    let released = lab.decided(&namespace, "linger-released");
    let reason = released.text("reason");
    assert!(
        reason.starts_with("the kubelet no longer lists the pod"),
        "{reason}"
    );
}
