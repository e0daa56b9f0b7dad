//! Pods as the kubelet's `/pods` shows them: whole objects of several kB, of
//! which a reader needs a few fields.
//!
//! Metadata and spec never change, so they are written once per pod; the
//! status is appended at each request.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::synthetic::ledger::{Attempt, ContainerRecord, PodRecord};
use crate::synthetic::spec::{ContainerSpec, PodSpec};

/// A time long enough ago; only real clocks care.
const CREATED: &str = "2026-11-21T06:00:00Z";

/// Everything of a pod but its status, without the closing brace.
pub fn without_status(uid: &str, node: &str, spec: &PodSpec) -> String {
    let object = json!({
        "metadata": metadata(uid, spec),
        "spec": pod_spec(node, spec),
    });
    let mut text = object.to_string();
    text.pop();
    text
}

/// The pod as it was when its containers were these.
pub fn whole(
    record: &PodRecord,
    containers: Option<&std::collections::BTreeMap<String, ContainerRecord>>,
) -> String {
    let status = status(record, containers);
    let mut text = record.manifest.to_string();
    if record.deleting {
        let deletion = format!(
            "{{\"metadata\":{{\"deletionTimestamp\":\"{CREATED}\",\"deletionGracePeriodSeconds\":30,"
        );
        text = text.replacen("{\"metadata\":{", &deletion, 1);
    }
    format!("{text},\"status\":{status}}}")
}

fn metadata(uid: &str, spec: &PodSpec) -> Value {
    let mut annotations: Map<String, Value> = [
        ("kubernetes.io/config.seen", CREATED),
        ("kubernetes.io/config.source", "api"),
        ("istio.io/rev", "default"),
        ("kubectl.kubernetes.io/default-container", "app"),
        ("prometheus.io/path", "/stats/prometheus"),
        ("prometheus.io/port", "15020"),
        ("prometheus.io/scrape", "true"),
        (
            "sidecar.istio.io/status",
            r#"{"initContainers":["istio-init"],"containers":["istio-proxy"],"volumes":["workload-socket","credential-socket","workload-certs","istio-envoy","istio-data","istio-podinfo","istio-token","istiod-ca-cert"],"imagePullSecrets":null,"revision":"default"}"#,
        ),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), json!(value)))
    .collect();
    for (key, value) in &spec.annotations {
        annotations.insert(key.clone(), json!(value));
    }
    json!({
        "name": spec.name,
        "generateName": format!("{}-", spec.name),
        "namespace": spec.namespace,
        "uid": uid,
        "resourceVersion": "48211",
        "generation": 1,
        "creationTimestamp": CREATED,
        "labels": {
            "app": "report", "batch.kubernetes.io/job-name": spec.name, "job-name": spec.name,
            "batch.kubernetes.io/controller-uid": "5b0f8f0e-33a1-4a77-a7ab-6a2f1a4e3d10",
            "controller-uid": "5b0f8f0e-33a1-4a77-a7ab-6a2f1a4e3d10",
            "security.istio.io/tlsMode": "istio",
            "service.istio.io/canonical-name": "report",
            "service.istio.io/canonical-revision": "latest",
        },
        "annotations": annotations,
        "ownerReferences": [{
            "apiVersion": "batch/v1", "kind": "Job", "name": spec.name, "controller": true,
            "uid": "5b0f8f0e-33a1-4a77-a7ab-6a2f1a4e3d10", "blockOwnerDeletion": true,
        }],
        "managedFields": [{
            "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
            "time": CREATED, "fieldsType": "FieldsV1", "fieldsV1": managed_fields(spec),
        }],
    })
}

fn managed_fields(spec: &PodSpec) -> Value {
    let containers: Map<String, Value> = spec
        .containers
        .iter()
        .map(|container| {
            let fields = json!({
                ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {},
                "f:env": {".": {}, "k:{\"name\":\"POD_NAME\"}": {".": {}, "f:name": {},
                    "f:valueFrom": {".": {}, "f:fieldRef": {}}}},
                "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {},
            });
            (format!("k:{{\"name\":\"{}\"}}", container.name), fields)
        })
        .collect();
    json!({
        "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}},
            "f:ownerReferences": {".": {}, "k:{\"uid\":\"5b0f8f0e-33a1-4a77-a7ab-6a2f1a4e3d10\"}": {}}},
        "f:spec": {"f:containers": containers, "f:dnsPolicy": {}, "f:enableServiceLinks": {},
            "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {},
            "f:terminationGracePeriodSeconds": {}},
    })
}

fn pod_spec(node: &str, spec: &PodSpec) -> Value {
    let containers: Vec<Value> = spec.containers.iter().map(container_spec).collect();
    json!({
        "volumes": [
            {"name": "workload-socket", "emptyDir": {}},
            {"name": "istio-envoy", "emptyDir": {"medium": "Memory"}},
            {"name": "istio-podinfo", "downwardAPI": {"defaultMode": 420, "items": [
                {"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}},
                {"path": "annotations", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.annotations"}},
            ]}},
            {"name": "istiod-ca-cert", "configMap": {"name": "istio-ca-root-cert", "defaultMode": 420}},
            {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ]}},
        ],
        "initContainers": [{
            "name": "istio-init", "image": "registry.example/istio/proxyv2:1.26.2",
            "args": ["istio-iptables", "-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT"],
            "terminationMessagePath": "/dev/termination-log", "resources": {},
        }],
        "containers": containers,
        "restartPolicy": spec.restart_policy.name(),
        "shareProcessNamespace": spec.share_processes,
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "nodeName": node,
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ],
        "priority": 0,
        "enableServiceLinks": true,
        "preemptionPolicy": "PreemptLowerPriority",
    })
}

fn container_spec(container: &ContainerSpec) -> Value {
    json!({
        "name": container.name,
        "image": container.image,
        "args": ["proxy", "sidecar", "--domain", "$(POD_NAMESPACE).svc.cluster.local",
            "--proxyLogLevel=warning", "--log_output_level=default:info"],
        "ports": [{"name": "http-envoy-prom", "containerPort": 15090, "protocol": "TCP"}],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}},
            {"name": "INSTANCE_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
            {"name": "PROXY_CONFIG", "value": "{\"discoveryAddress\":\"istiod.istio-system.svc:15012\"}\n"},
            {"name": "ISTIO_META_APP_CONTAINERS", "value": "app"},
            {"name": "TRUST_DOMAIN", "value": "cluster.local"},
        ],
        "resources": {},
        "volumeMounts": [
            {"name": "workload-socket", "mountPath": "/var/run/secrets/workload-spiffe-uds"},
            {"name": "istiod-ca-cert", "mountPath": "/var/run/secrets/istio"},
            {"name": "kube-api-access-x7k2p", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "readinessProbe": {"httpGet": {"path": "/healthz/ready", "port": 15021, "scheme": "HTTP"},
            "timeoutSeconds": 3, "periodSeconds": 15, "successThreshold": 1, "failureThreshold": 4},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    })
}

fn status(
    record: &PodRecord,
    containers: Option<&std::collections::BTreeMap<String, ContainerRecord>>,
) -> Value {
    let qos = record.spec.qos.name();
    let Some(containers) = containers else {
        return json!({"phase": "Pending", "qosClass": qos});
    };
    let none = ContainerRecord::default();
    let statuses: Vec<Value> = record
        .spec
        .containers
        .iter()
        .map(|spec| container_status(spec, containers.get(&spec.name).unwrap_or(&none)))
        .collect();
    let started = containers
        .values()
        .any(|record| !record.attempts.is_empty());
    json!({
        "phase": if started { "Running" } else { "Pending" },
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": CREATED},
            {"type": "Initialized", "status": "True", "lastProbeTime": null, "lastTransitionTime": CREATED},
        ],
        "hostIP": "192.0.2.10",
        "podIP": "198.51.100.7",
        "podIPs": [{"ip": "198.51.100.7"}],
        "startTime": CREATED,
        "containerStatuses": statuses,
        "qosClass": qos,
    })
}

fn container_status(spec: &ContainerSpec, record: &ContainerRecord) -> Value {
    let last = record.attempts.last();
    let previous = record.attempts.iter().rev().nth(1);
    let mut status = json!({
        "name": spec.name,
        "state": last.map_or_else(waiting, state),
        "lastState": previous.map_or_else(|| json!({}), state),
        "ready": last.is_some_and(|attempt| attempt.running && attempt.ended.is_none()),
        "started": last.is_some_and(|attempt| attempt.running && attempt.ended.is_none()),
        "restartCount": record.attempts.len().saturating_sub(1),
        "image": spec.image,
        "imageID": "registry.example/image@sha256:8c1b0f0de1a5a6b7f2c34d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192",
    });
    // Absent, and never null, until there is one.
    if let Some(attempt) = last {
        status["containerID"] = json!(format!("containerd://{}", attempt.id));
    }
    status
}

fn waiting() -> Value {
    json!({"waiting": {"reason": "ContainerCreating"}})
}

fn state(attempt: &Attempt) -> Value {
    let started = rfc3339(attempt.ordered);
    match &attempt.ended {
        Some(ended) => json!({"terminated": {
            "exitCode": ended.code(),
            "reason": if ended.code() == 0 { "Completed" } else { "Error" },
            "startedAt": started, "finishedAt": rfc3339(ended.at),
            "containerID": format!("containerd://{}", attempt.id),
        }}),
        None if attempt.running => json!({"running": {"startedAt": started}}),
        None => waiting(),
    }
}

/// Seconds are all that Kubernetes writes. The civil date is Howard Hinnant's
/// `civil_from_days`.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_243_321, "2026-11-21T06:42:01Z"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(rfc3339(time), text);
        }
    }

    #[test]
    fn a_pod_is_json_of_several_kilobytes() {
        let text = without_status("u", "n", &PodSpec::job("j")) + "}";
        let object: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(object["metadata"]["uid"], "u");
        assert!(text.len() > 4_000, "{}", text.len());
    }
}
