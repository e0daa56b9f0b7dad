//! A pod's metadata, with the fields that controllers and injectors add.

use serde_json::{Map, Value, json};

use super::CREATED;
use crate::synthetic::spec::{ISTIO_PROXY, Origin, PodSpec};

/// The UID of the Job that owns the pods.
const JOB: &str = "5b0f8f0e-33a1-4a77-a7ab-6a2f1a4e3d10";

pub(super) fn metadata(uid: &str, spec: &PodSpec) -> Value {
    let (mut annotations, mut labels) = (Map::new(), Map::new());
    let mut note = |key: &str, value: &str| {
        annotations.insert(key.to_owned(), json!(value));
    };
    let mut label = |key: &str, value: &str| {
        labels.insert(key.to_owned(), json!(value));
    };
    note("kubernetes.io/config.seen", CREATED);
    label("app", "report");
    match spec.origin {
        Origin::File => {
            note("kubernetes.io/config.source", "file");
            note("kubernetes.io/config.hash", uid);
        }
        Origin::Job | Origin::NoOwner => note("kubernetes.io/config.source", "api"),
    }
    if spec.origin == Origin::Job {
        for key in ["batch.kubernetes.io/job-name", "job-name"] {
            label(key, &spec.name);
        }
        for key in ["batch.kubernetes.io/controller-uid", "controller-uid"] {
            label(key, JOB);
        }
    }
    if is_istio(spec) {
        note("istio.io/rev", "default");
        note("kubectl.kubernetes.io/default-container", "app");
        note("prometheus.io/path", "/stats/prometheus");
        note("prometheus.io/port", "15020");
        note("prometheus.io/scrape", "true");
        note(
            "sidecar.istio.io/status",
            r#"{"initContainers":["istio-init"],"containers":["istio-proxy"],"volumes":["workload-socket","credential-socket","workload-certs","istio-envoy","istio-data","istio-podinfo","istio-token","istiod-ca-cert"],"imagePullSecrets":null,"revision":"default"}"#,
        );
        label("security.istio.io/tlsMode", "istio");
        label("service.istio.io/canonical-name", "report");
        label("service.istio.io/canonical-revision", "latest");
    }
    for (key, value) in &spec.annotations {
        note(key, value);
    }
    for (key, value) in &spec.labels {
        label(key, value);
    }
    let mut metadata = json!({
        "name": spec.name,
        "namespace": spec.namespace,
        "uid": uid,
        "resourceVersion": "48211",
        "generation": 1,
        "creationTimestamp": CREATED,
        "labels": labels,
        "annotations": annotations,
        "managedFields": [{
            "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
            "time": CREATED, "fieldsType": "FieldsV1", "fieldsV1": managed_fields(spec),
        }],
    });
    if spec.origin == Origin::Job {
        metadata["generateName"] = json!(format!("{}-", spec.name));
        metadata["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": spec.name, "controller": true,
            "uid": JOB, "blockOwnerDeletion": true,
        }]);
    }
    metadata
}

/// Whether Istio's injector has changed the pod.
pub(super) fn is_istio(spec: &PodSpec) -> bool {
    let mut containers = spec.containers.iter();
    containers.any(|container| container.name == ISTIO_PROXY)
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
            "f:ownerReferences": {".": {}, format!("k:{{\"uid\":\"{JOB}\"}}"): {}}},
        "f:spec": {"f:containers": containers, "f:dnsPolicy": {}, "f:enableServiceLinks": {},
            "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {},
            "f:terminationGracePeriodSeconds": {}},
    })
}
