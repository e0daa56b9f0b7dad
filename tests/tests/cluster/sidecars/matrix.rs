//! Each sidecar that exits cleanly on a request, under both policies of Jobs. The durations are printed.

use std::{
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use usher_cluster::workload::{
    DAPR_PORT, ENVOY_PORT, ISTIO_STATUS_PORT, SQL_PORT, app_container, cloud_sql_proxy_container,
    dapr_container, envoy_container, istio_proxy_container, job,
};

use super::{
    since_exit,
    table::{Row, Table},
};
use crate::{
    lab::{self, Lab},
    workload::{container, exit_code, pod},
};

/// A sidecar, the port that shows its start, and the step that ends it.
struct Kind {
    title: &'static str,
    port: u16,
    step: &'static str,
    container: fn() -> Value,
}

const KINDS: [Kind; 6] = [
    Kind {
        title: "Istio 1.31",
        port: ISTIO_STATUS_PORT,
        step: "POST :15020/quitquitquit",
        container: istio_proxy_container,
    },
    Kind {
        title: "Envoy 1.40",
        port: ENVOY_PORT,
        step: "POST :9901/quitquitquit",
        container: || envoy_container("envoy"),
    },
    Kind {
        title: "Dapr 1.14",
        port: DAPR_PORT,
        step: "POST :3500/v1.0/shutdown",
        container: dapr_container,
    },
    Kind {
        title: "Dapr 1.14 with an API token",
        port: DAPR_PORT,
        step: "POST :3500/v1.0/shutdown",
        container: dapr_with_token,
    },
    Kind {
        title: "Cloud SQL 2.27 --quitquitquit",
        port: SQL_PORT,
        step: "POST :9091/quitquitquit",
        container: || cloud_sql_proxy_container(&["--quitquitquit"]),
    },
    Kind {
        title: "Cloud SQL 2.27 --exit-zero-on-sigterm",
        port: SQL_PORT,
        step: "SIGTERM",
        container: || cloud_sql_proxy_container(&["--exit-zero-on-sigterm"]),
    },
];

#[test]
fn every_sidecar_ends_with_0_and_its_job_completes() {
    // Two at a time, without other pods, because the durations are compared.
    let Some(lab) = lab::alone() else {
        return;
    };
    let mut table = Table::default();
    for kind in &KINDS {
        let lab: &'static Lab = *lab;
        let rows = thread::scope(|scope| {
            ["Never", "OnFailure"]
                .map(|policy| scope.spawn(move || completes(lab, kind, policy)))
                .map(|row| row.join().unwrap())
        });
        rows.into_iter().for_each(|row| table.add(row));
    }
}

/// Its API rejects clients without the token, which only its own process has.
fn dapr_with_token() -> Value {
    let mut container = dapr_container();
    let token = json!({ "name": "DAPR_API_TOKEN", "value": "a-token" });
    container["env"].as_array_mut().unwrap().push(token);
    container
}

fn completes(lab: &'static Lab, kind: &Kind, policy: &'static str) -> Row {
    let namespace = lab.namespace(&format!("matrix-{}", policy.to_lowercase()));
    let port = kind.port.to_string();
    // Istio's status port opens before the handler of the request works.
    let app = app_container("app", &["--await-port", &port, "--run-for", "1s"]);
    let sidecar = (kind.container)();
    let name = sidecar["name"].as_str().unwrap().to_owned();
    lab.cluster
        .apply(&job("job", &namespace, policy, &[app, sidecar]))
        .unwrap();
    let complete = [
        "-n",
        &namespace,
        "wait",
        "job/job",
        "--for=condition=Complete",
        "--timeout=180s",
    ];
    lab.cluster.kubectl(&complete).unwrap();
    let completed_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();

    let ended = lab.decided(&namespace, "sidecar-ended");
    assert_eq!(lab.count(&namespace, "sidecar-ended"), 1);
    assert_eq!(ended.text("container"), name);
    assert_eq!(lab.count(&namespace, "gave-up"), 0);
    let pod = pod(lab, &namespace).unwrap();
    let what = format!("{} under {policy}", kind.title);
    assert_eq!(pod["status"]["phase"], "Succeeded", "{what}");
    assert_eq!(*exit_code(&pod, &name), 0, "{what}");
    assert_eq!(*exit_code(&pod, "app"), 0, "{what}");
    assert_eq!(container(&pod, &name)["restartCount"], 0, "{what}");
    let accepted = lab.decided(&namespace, "quit-accepted");
    let reason = accepted.text("reason");
    assert!(reason.starts_with(kind.step), "{what}: {reason}");
    Row {
        sidecar: kind.title,
        policy,
        step: kind.step,
        accepted_ms: since_exit(&accepted),
        ended_ms: since_exit(&ended),
        complete: completed_at.checked_sub(app_exit(lab, &namespace)).unwrap(),
        exit_code: exit_code(&pod, &name).as_i64().unwrap(),
        phase: pod["status"]["phase"].as_str().unwrap().to_owned(),
    }
}

/// The time of the app's last line, on this machine's clock.
fn app_exit(lab: &Lab, namespace: &str) -> Duration {
    let log = lab
        .cluster
        .kubectl(&["-n", namespace, "logs", "job/job", "-c", "app"])
        .unwrap();
    let nanoseconds = log
        .lines()
        .filter_map(|line| line.strip_prefix("app-exit unix_ns="))
        .find_map(|rest| rest.split_whitespace().next()?.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_else(|| panic!("the app's last line: {log}")))
}
