//! Pods in the format of the kubelet's `/pods`: whole objects of several kB, of
//! which a reader needs a few fields.
//!
//! Metadata and spec never change, so they are written once per pod; the
//! status is appended at each request.

mod metadata;
mod pod;
mod status;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use crate::synthetic::ledger::{ContainerRecord, PodRecord};
use crate::synthetic::spec::PodSpec;

/// The grace period of a deletion.
const GRACE: Duration = Duration::from_secs(30);
/// A time in the past; its value does not matter.
const CREATED: &str = "2026-11-21T06:00:00Z";

/// A pod without its status and the closing brace.
pub fn without_status(uid: &str, node: &str, spec: &PodSpec) -> String {
    let object = json!({
        "metadata": metadata::metadata(uid, spec),
        "spec": pod::pod_spec(node, spec),
    });
    let mut text = object.to_string();
    text.pop();
    text
}

/// The pod with the status of these containers.
pub fn whole(record: &PodRecord, containers: Option<&BTreeMap<String, ContainerRecord>>) -> String {
    let status = status::status(record, containers);
    let mut text = record.manifest.to_string();
    if let Some(deleted) = record.deleted {
        let expires = status::rfc3339(deleted + GRACE);
        let deletion = format!(
            "{{\"metadata\":{{\"deletionTimestamp\":\"{expires}\",\"deletionGracePeriodSeconds\":{},",
            GRACE.as_secs()
        );
        text = text.replacen("{\"metadata\":{", &deletion, 1);
    }
    format!("{text},\"status\":{status}}}")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::synthetic::{ContainerSpec, RestartPolicy, RestartRule};

    fn read(spec: &PodSpec) -> Value {
        let text = without_status("u", "n", spec) + "}";
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn pod_manifest_has_a_realistic_size() {
        let spec = PodSpec::job("j");
        assert_eq!(read(&spec)["metadata"]["uid"], "u");
        let text = without_status("u", "n", &spec);
        assert!(text.len() > 4_000, "{}", text.len());
    }

    #[test]
    fn container_fields_are_written() {
        let rules = ContainerSpec::app("a")
            .own_policy(RestartPolicy::OnFailure)
            .rule(RestartRule::restart_after(&[42]));
        let words = ContainerSpec::app("b")
            .command(&["c"])
            .args(&["d"])
            .env("E", "1")
            .secret_env("F", "2");
        let pod = read(&PodSpec::new("p").with(rules).with(words));
        let [a, b] = [0, 1].map(|n| &pod["spec"]["containers"][n]);
        assert_eq!(a["restartPolicy"], "OnFailure");
        assert_eq!(a["restartPolicyRules"][0]["exitCodes"]["values"][0], 42);
        assert_eq!(a.get("args"), None);
        assert_eq!(b["command"][0], "c");
        assert_eq!(b["args"][0], "d");
        assert_eq!(b["env"][2]["value"], "1");
        assert!(b["env"][3]["valueFrom"]["secretKeyRef"].is_object());
        assert!(!pod.to_string().contains("istio"), "{pod}");
    }
}
