//! Sidecars that close the connections of their app on SIGTERM: an app uses one open connection until its end.

use std::time::Duration;

use serde_json::Value;
use usher_cluster::workload::{
    self, DAPR_PORT, app_container, cloud_sql_proxy_container, dapr_container,
};

use super::{Deletion, GRACE, LEAST_CALLS, calls, wait_armed, wait_log, with};
use crate::{
    lab::{self, Lab},
    workload::container_runs,
};

/// Longer than Dapr's own shutdown of 5 s, also if Dapr receives its signal seconds after the app.
const WORK: Duration = Duration::from_secs(12);
/// The Cloud SQL proxy's port for health checks. Its database does not exist here.
const SQL_HEALTH: u16 = 9090;

/// Creates a pod of an app and this sidecar, and waits until the connection is open.
fn run(lab: &Lab, namespace: &str, sidecar: &Value, url: &str, annotations: &[(&str, &str)]) {
    let delay = format!("{}s", WORK.as_secs());
    let term = ["--term-delay", &delay, "--term-code", "0"];
    let app = app_container("app", &[&["--keep-after-term", url][..], &term].concat());
    let pod = workload::pod("pod", namespace, "Always", &[app, sidecar.clone()]);
    lab.cluster.apply(&with(pod, GRACE, annotations)).unwrap();
    container_runs(lab, namespace, "app");
    wait_log(lab, namespace, "app-kept");
}

#[test]
fn open_connection_to_the_sidecar_lasts_until_the_end_of_the_app() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let dapr = format!("127.0.0.1:{DAPR_PORT}/v1.0/healthz");
    let sql = format!("127.0.0.1:{SQL_HEALTH}/liveness");
    let kinds = [
        ("dapr", dapr_container(), dapr),
        ("sql", cloud_sql_proxy_container(&["--health-check"]), sql),
    ];
    let namespaces = kinds.each_ref().map(|(name, sidecar, url)| {
        let lingers = lab.namespace(&format!("linger-{name}"));
        let plain = lab.namespace(&format!("linger-{name}-plain"));
        run(
            &lab,
            &lingers,
            sidecar,
            url,
            &[("usher.dev/linger", "true")],
        );
        run(&lab, &plain, sidecar, url, &[]);
        wait_armed(&lab, &lingers);
        [lingers, plain]
    });
    let deletions = namespaces.each_ref().map(|pair| {
        pair.each_ref()
            .map(|namespace| Deletion::begin(&lab, namespace))
    });
    for ((name, _, _), deletions) in kinds.iter().zip(deletions) {
        let [log, plain_log] = deletions.map(|deletion| deletion.end().1);
        let (sent, failed) = calls(&log);
        let (_sent, plain_failed) = calls(&plain_log);
        eprintln!("{name}: failed with linger: {failed} of {sent}; without: {plain_failed}");
        assert!(sent >= LEAST_CALLS, "{name}: {log}");
        assert_eq!(failed, 0, "{name}: {log}");
        assert!(plain_failed > 0, "{name}: {plain_log}");
    }
}
