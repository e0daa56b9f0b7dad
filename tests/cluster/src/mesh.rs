//! A real Istio in the cluster: its own control plane, injection by its own webhook, and a server to connect to.
//!
//! [`crate::Cluster::up`] installs it if [`crate::programs::Sidecars`] requests it, from Istio's own charts.
//! `programs/istio/manifest/operator.yaml` has the differences from a default install, with reasons. [`run_job`] starts
//! a Job in the mesh and follows it, [`complete_jobs`] measures the time to completion; [`ControlPlane`] delays the
//! readiness of its proxy.

mod completion;
mod control_plane;
mod controller;
mod follow;
mod outage;
mod run;
mod unbound;
mod variant;

use std::{path::Path, time::Duration};

use anyhow::Result;
use serde_json::{Value, json};

pub use self::{
    completion::complete_jobs,
    control_plane::{ControlPlane, Paused},
    controller::BY_CONTROLLER,
    run::{Outcome, run_job, run_jobs},
    unbound::{bind, unbind},
    variant::{InitCase, Proxy, Variant},
};
use crate::{Cluster, image::catalog::APP, node::process::wait_until, progress::Progress};

/// The namespace with injection.
pub const NAMESPACE: &str = "mesh";
/// The server outside the mesh, reached through it: it responds to every request with 200.
pub const PEER: &str = "10.96.0.80:80";
/// The same server, which returns every datagram. The mesh captures no UDP.
pub const ECHO: &str = "10.96.0.80:7";
/// The readiness endpoint of a proxy, from inside its pod.
pub const READY: &str = "127.0.0.1:15021/healthz/ready";
/// The quit endpoint of a proxy, from inside its pod.
pub const QUIT: &str = "127.0.0.1:15020/quitquitquit";

const SYSTEM: &str = "istio-system";
const PEER_ADDRESS: &str = "10.96.0.80";
const PEER_PORT: u16 = 8000;
const ECHO_PORT: u16 = 8007;
const LIMIT: Duration = Duration::from_secs(120);

/// Installs Istio and the tests' objects around it, or their missing parts; returns when pods can be injected and
/// reach the peer. `manifest` is a List of objects.
pub(crate) fn install(cluster: &Cluster, manifest: &Path, progress: &Progress) -> Result<()> {
    cluster.apply(&namespace(SYSTEM, &json!({})))?;
    let manifest = manifest.display().to_string();
    let create = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "-f",
        &manifest,
    ];
    cluster.kubectl(&create)?;
    progress.step("Istio's objects are there");
    // In the namespace of the mesh, but not injected: it must exist before the first injection.
    cluster.apply(&namespace(
        NAMESPACE,
        &json!({ "istio-injection": "enabled" }),
    ))?;
    for object in peer() {
        cluster.apply(&object)?;
    }
    rollout(cluster, SYSTEM, "istiod")?;
    wait_until(LIMIT, "the webhook's certificate", || {
        let bundle = "jsonpath={.webhooks[*].clientConfig.caBundle}";
        let hook = [
            "get",
            "mutatingwebhookconfiguration",
            "istio-sidecar-injector",
            "-o",
            bundle,
        ];
        Ok(!cluster.kubectl(&hook)?.trim().is_empty())
    })?;
    progress.step("istiod is ready and injects");
    rollout(cluster, NAMESPACE, "peer")?;
    progress.step("the peer of the mesh's tests serves");
    Ok(())
}

/// Whether it is installed.
pub(crate) fn is_installed(cluster: &Cluster) -> bool {
    let get = ["-n", SYSTEM, "get", "deployment", "istiod"];
    cluster.kubectl(&get).is_ok()
}

fn rollout(cluster: &Cluster, namespace: &str, deployment: &str) -> Result<()> {
    let name = format!("deployment/{deployment}");
    let limit = format!("--timeout={}s", LIMIT.as_secs());
    let wait = ["-n", namespace, "rollout", "status", &name, &limit];
    cluster.kubectl(&wait).map(drop)
}

fn namespace(name: &str, labels: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } })
}

fn peer() -> [Value; 2] {
    let labels = json!({ "app": "peer", "sidecar.istio.io/inject": "false" });
    let metadata = json!({ "name": "peer", "namespace": NAMESPACE });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": PEER_ADDRESS,
            "selector": { "app": "peer" },
            "ports": [
                { "name": "http", "port": 80, "targetPort": PEER_PORT },
                { "name": "echo", "protocol": "UDP", "port": 7, "targetPort": ECHO_PORT },
            ],
        },
    });
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "selector": { "matchLabels": { "app": "peer" } },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "peer",
                        "image": APP,
                        "imagePullPolicy": "Never",
                        "args": ["--serve", PEER_PORT.to_string(), "--serve-echo", ECHO_PORT.to_string()],
                    }],
                },
            },
        },
    });
    [service, deployment]
}
