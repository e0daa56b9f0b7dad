//! The installation of Istio, and the server to which the pods in the mesh connect.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Cluster, LIMIT};
use crate::{image::catalog::APP, node::process::wait_until, progress::Progress};

/// The namespace with injection.
pub const NAMESPACE: &str = "mesh";
/// The server outside the mesh, reached through it: it responds to every request with 200.
pub const PEER: &str = "10.96.0.80:80";
/// The same server, which returns every datagram. The mesh captures no UDP.
pub const ECHO: &str = "10.96.0.80:7";

/// The namespace of the control plane.
pub(crate) const SYSTEM: &str = "istio-system";
const PEER_ADDRESS: &str = "10.96.0.80";
const PEER_PORT: u16 = 8000;
const ECHO_PORT: u16 = 8007;

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
        // One failed request does not matter.
        let bundle = cluster.kubectl(&hook).unwrap_or_default();
        Ok(!bundle.trim().is_empty())
    })?;
    progress.step("istiod is ready and injects");
    rollout(cluster, NAMESPACE, "peer")?;
    progress.step("the peer of the mesh's tests serves");
    Ok(())
}

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
