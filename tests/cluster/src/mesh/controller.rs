//! The approach of central tools: watch the status of pods at the API server, and run a command in the proxy's
//! container when the app's is terminated there.
//!
//! kubectl watches and runs the command, so 50 to 100 ms of each quit are the start of a program that a controller in one
//! process would not need.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{NAMESPACE, follow::Watch};
use crate::Cluster;

/// Pods with this annotation are terminated here.
pub const BY_CONTROLLER: (&str, &str) = ("usher.test/quit-by", "controller");
/// The interval at which it checks whether it should stop.
const LOOK: Duration = Duration::from_millis(100);

/// Terminates proxies until `over` is set.
pub(super) fn run(cluster: &Cluster, pods: &Watch, over: &AtomicBool) -> Result<()> {
    let mut asked = HashSet::new();
    let mut running = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let Some(pod) = pods.next_within(LOOK) else {
            continue;
        };
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        if is_finished(&pod) && asked.insert(name.to_owned()) {
            let exec = ["-n", NAMESPACE, "exec", name, "-c", "istio-proxy", "--"];
            let quit = ["pilot-agent", "request", "POST", "quitquitquit"];
            let mut kubectl = cluster.kubectl_command();
            let kubectl = kubectl.args(exec).args(quit);
            running.push(kubectl.spawn().context("start kubectl exec")?);
        }
    }
    for mut kubectl in running {
        // The command may fail: the container ends during its response.
        kubectl.wait().context("wait for kubectl exec")?;
    }
    Ok(())
}

/// Whether a pod has the annotation, and its app has exited while its proxy has not.
fn is_finished(pod: &Value) -> bool {
    let (key, value) = BY_CONTROLLER;
    let state = |name: &str| {
        let statuses = pod["status"]["containerStatuses"].as_array();
        let mut statuses = statuses.into_iter().flatten();
        let status = statuses.find(|status| status["name"] == name);
        status.map_or(&Value::Null, |status| &status["state"])
    };
    pod["metadata"]["annotations"][key] == value
        && state("app")["terminated"].is_object()
        && state("istio-proxy")["running"].is_object()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_own_pods_with_an_exited_app_are_finished() {
        let pod = |value: &str, state: &str| {
            json!({
                "metadata": { "annotations": { BY_CONTROLLER.0: value } },
                "status": { "containerStatuses": [
                    { "name": "app", "state": { state: {} } },
                    { "name": "istio-proxy", "state": { "running": {} } },
                ] },
            })
        };
        assert!(is_finished(&pod("controller", "terminated")));
        assert!(!is_finished(&pod("controller", "running")));
        assert!(!is_finished(&pod("usher", "terminated")));
        assert!(!is_finished(&json!({})));
    }
}
