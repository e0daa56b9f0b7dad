//! Pods that exist and are bound to no node until a test binds them. Pods that are to start during an outage of istiod are
//! created this way: its webhook has admitted them before.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::NAMESPACE;
use crate::Cluster;

/// Prevents the binding of pods with this spec.
pub fn unbind(pod_spec: &mut Value) {
    pod_spec["schedulingGates"] = json!([{ "name": "usher.test/unbound" }]);
}

/// Binds such a pod.
pub fn bind(cluster: &Cluster, pod: &str) -> Result<()> {
    let patch = json!([{ "op": "remove", "path": "/spec/schedulingGates" }]).to_string();
    let which = ["-n", NAMESPACE, "patch", "pod", pod, "--type=json", "-p"];
    let bind = [&which[..], &[&patch]].concat();
    cluster
        .kubectl(&bind)
        .with_context(|| format!("let pod {pod} have a node"))
        .map(drop)
}
