//! The components of a cluster, for records of measurements.

use anyhow::{Context, Result};

use crate::{
    cluster::{Cluster, istio},
    programs,
};

/// Names and versions, as the node reports them; Istio's if it is installed.
pub fn versions(cluster: &Cluster) -> Result<Vec<(String, String)>> {
    let node = cluster.kubectl_json(&["get", "node", cluster.node_name()])?;
    let info = &node["status"]["nodeInfo"];
    let text = |field: &str| {
        let value = info[field].as_str();
        value.with_context(|| format!("the node does not say its {field}"))
    };
    let runtime = text("containerRuntimeVersion")?;
    let (name, version) = runtime.split_once("://").unwrap_or(("runtime", runtime));
    let mut found = vec![
        ("Kubernetes".to_owned(), text("kubeletVersion")?.to_owned()),
        (name.to_owned(), version.to_owned()),
    ];
    if istio::is_installed(cluster) {
        found.push(("Istio".to_owned(), programs::ISTIO_VERSION.to_owned()));
    }
    Ok(found)
}
