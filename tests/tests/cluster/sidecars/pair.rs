//! Two sidecars in one pod: the one that may need the mesh during its exit ends first.

use usher_cluster::workload::{
    ISTIO_STATUS_PORT, SQL_PORT, app_container, cloud_sql_proxy_container, istio_proxy_container,
    job,
};

use super::since_exit;
use crate::{
    lab::{self, Lab, until},
    workload::{container, exit_code, job_becomes},
};

const MESH: &str = "istio-proxy";
const HELPER: &str = "cloud-sql-proxy";

#[test]
fn mesh_proxy_ends_last() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let policies = ["Never", "OnFailure"];
    let namespaces = policies.map(|policy| {
        let namespace = lab.namespace(&format!("pair-{}", policy.to_lowercase()));
        let ports = [SQL_PORT, ISTIO_STATUS_PORT].map(|port| port.to_string());
        let [sql, istio] = &ports;
        // Before the end of this second, pilot-agent may need another request.
        let args = [
            "--await-port",
            sql,
            "--await-port",
            istio,
            "--run-for",
            "1s",
        ];
        // The mesh first, so that the order of the pod's containers cannot be the reason.
        let containers = [
            istio_proxy_container(),
            cloud_sql_proxy_container(&["--quitquitquit"]),
            app_container("app", &args),
        ];
        lab.cluster
            .apply(&job("job", &namespace, policy, &containers))
            .unwrap();
        namespace
    });
    for namespace in &namespaces {
        ends_in_order(&lab, namespace);
    }
}

fn ends_in_order(lab: &Lab, namespace: &str) {
    let pod = job_becomes(lab, namespace, "Complete");
    assert_eq!(pod["status"]["phase"], "Succeeded");
    let finished = |name: &str| {
        assert_eq!(*exit_code(&pod, name), 0, "{name}");
        assert_eq!(container(&pod, name)["restartCount"], 0, "{name}");
        container(&pod, name)["state"]["terminated"]["finishedAt"]
            .as_str()
            .unwrap()
    };
    // The times are whole seconds in the same format, so they can be compared as text.
    assert!(finished(HELPER) <= finished(MESH));

    let decided = |decision: &str, name: &str| {
        until(&format!("{decision} of {name} in {namespace}"), || {
            let mut decisions = lab.decisions(namespace).into_iter();
            decisions
                .find(|line| line.text("decision") == decision && line.text("container") == name)
        })
    };
    // The agent's own clock, not the order of its lines: the line about the exit waits for the exit code.
    let ended = since_exit(&decided("sidecar-ended", HELPER));
    let asked = since_exit(&decided("quit-accepted", MESH));
    assert!(
        ended <= asked,
        "the helper ended after {ended} ms, the mesh was asked after {asked} ms"
    );
    decided("sidecar-ended", MESH);
    for decision in ["quit-accepted", "sidecar-ended"] {
        assert_eq!(lab.count(namespace, decision), 2);
    }
}
