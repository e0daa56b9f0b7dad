//! The load during the test: Jobs whose sidecars are terminated, would be terminated, or stay; connections and starts
//! that wait, some of them past the deadline.

use std::time::Duration;

use serde_json::json;
use usher_cluster::{
    mesh::{Proxy, Variant, run_job, run_jobs},
    workload::{app_container, istio_proxy_container, job},
};

use crate::{
    lab::{Lab, Namespace},
    mesh::run_to_deadline,
};

/// Jobs of one round with sidecars that have no control plane.
const JOBS: usize = 4;
/// The duration of istiod's outage.
const AWAY: Duration = Duration::from_secs(4);

/// Observe mode, then enforce mode, for this number of rounds.
pub(super) fn run(lab: &'static Lab, rounds: usize) {
    let namespace = lab.namespace("measured");
    lab.mode("observe");
    jobs(lab, &namespace, "seen");
    lab.decided(&namespace, "would-quit");
    // The app of this Job is refused: there is no hold.
    run_job(&lab.cluster, &Variant::new(Proxy::Last)).unwrap();
    remove_jobs(lab, &namespace);
    lab.mode("enforce");
    stubborn(lab, &namespace);
    for round in 0..rounds {
        jobs(lab, &namespace, &format!("round-{round}"));
        wait(lab, AWAY);
    }
    lab.decided(&namespace, "gave-up");
    // The app of this Job is released at the deadline, and refused. Meanwhile the metrics of the stubborn sidecar are read.
    run_to_deadline(lab);
    remove_jobs(lab, &namespace);
}

/// Jobs that end one after the other.
fn jobs(lab: &Lab, namespace: &Namespace, name: &str) {
    for number in 0..JOBS {
        let run_for = format!("{}ms", 500 * (number + 1));
        let app = app_container("app", &["--run-for", &run_for]);
        let containers = [app, istio_proxy_container()];
        let job = job(&format!("{name}-{number}"), namespace, "Never", &containers);
        lab.cluster.apply(&job).unwrap();
    }
}

fn remove_jobs(lab: &Lab, namespace: &Namespace) {
    let delete = ["-n", namespace, "delete", "jobs", "--all", "--wait=false"];
    lab.cluster.kubectl(&delete).unwrap();
}

/// A sidecar that cannot be terminated: it ignores the signal that should end it.
fn stubborn(lab: &Lab, namespace: &Namespace) {
    let app = app_container("app", &["--run-for", "500ms"]);
    let other = app_container("other", &["--run-for", "600s", "--ignore-term"]);
    let mut job = job("stubborn", namespace, "Never", &[app, other]);
    let template = &mut job["spec"]["template"]["metadata"];
    template["annotations"]["usher.dev/sidecars"] = json!("other=SIGTERM");
    lab.cluster.apply(&job).unwrap();
}

/// Apps in the mesh: two are held at their first connection and one at its first instruction.
fn wait(lab: &Lab, away: Duration) {
    let variant = |annotations: &[(&'static str, &'static str)]| Variant {
        delay: Some(away),
        annotations: annotations.to_vec(),
        ..Variant::new(Proxy::Last)
    };
    let start = [("usher.dev/hold", "start")];
    let variants = [variant(&[]), variant(&[]), variant(&start)];
    run_jobs(&lab.cluster, &variants, &|| true).unwrap();
}
