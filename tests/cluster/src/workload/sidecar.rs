//! Real sidecars, as their injectors or their users add them to a pod. None of them has a control plane or a cloud
//! to connect to; they start without, and exit in the same ways.

use serde_json::{Value, json};

use crate::image::catalog::{CLOUD_SQL_PROXY, DAPR, ENVOY, ISTIO_PROXY, ISTIO_UID};

/// The ports on loopback that sidecars listen on when they have started.
pub const ISTIO_STATUS_PORT: u16 = 15020;
pub const ENVOY_PORT: u16 = 9901;
pub const DAPR_PORT: u16 = 3500;
/// The port of the database. The proxy opens its own ports only after its start was requested.
pub const SQL_PORT: u16 = 5433;

/// The address of Istio's control plane, without a listener: the proxy never becomes ready.
const DISCOVERY: &str = "127.0.0.1:15012";

/// The container that Istio's injector adds, with the real agent and Envoy.
#[must_use]
pub fn istio_proxy_container() -> Value {
    let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let value = |name: &str, value: &str| json!({ "name": name, "value": value });
    let proxy_config = json!({
        "discoveryAddress": DISCOVERY,
        "concurrency": 2,
        "statusPort": ISTIO_STATUS_PORT,
    });
    json!({
        "name": "istio-proxy",
        "image": ISTIO_PROXY,
        "imagePullPolicy": "Never",
        "args": [
            "proxy", "sidecar", "--domain", "$(POD_NAMESPACE).svc.cluster.local",
            "--proxyLogLevel=warning", "--log_output_level=default:info",
        ],
        "ports": [{ "containerPort": 15090, "protocol": "TCP", "name": "http-envoy-prom" }],
        "env": [
            value("PILOT_CERT_PROVIDER", "istiod"),
            value("CA_ADDR", DISCOVERY),
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
            field("INSTANCE_IP", "status.podIP"),
            field("SERVICE_ACCOUNT", "spec.serviceAccountName"),
            field("HOST_IP", "status.hostIP"),
            value("PROXY_CONFIG", &proxy_config.to_string()),
            value("ISTIO_META_POD_PORTS", "[]"),
            value("ISTIO_META_APP_CONTAINERS", "app"),
            value("ISTIO_META_CLUSTER_ID", "Kubernetes"),
            field("ISTIO_META_NODE_NAME", "spec.nodeName"),
            value("ISTIO_META_INTERCEPTION_MODE", "REDIRECT"),
            value("ISTIO_META_MESH_ID", "cluster.local"),
            value("TRUST_DOMAIN", "cluster.local"),
            // Otherwise the agent waits 2 s for a cloud's metadata server.
            value("CLOUD_PLATFORM", "none"),
        ],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "privileged": false,
            "readOnlyRootFilesystem": false,
            "runAsUser": ISTIO_UID,
            "runAsGroup": ISTIO_UID,
            "runAsNonRoot": true,
        },
    })
}

/// The annotations that Istio's injector adds to a pod with a regular proxy container.
#[must_use]
pub fn istio_annotations() -> Value {
    let status = json!({
        "initContainers": Value::Null,
        "containers": ["istio-proxy"],
        "volumes": Value::Null,
        "imagePullSecrets": Value::Null,
        "revision": "default",
    });
    json!({
        "istio.io/rev": "default",
        "kubectl.kubernetes.io/default-container": "app",
        "kubectl.kubernetes.io/default-logs-container": "app",
        "prometheus.io/path": "/stats/prometheus",
        "prometheus.io/port": "15020",
        "prometheus.io/scrape": "true",
        "sidecar.istio.io/status": status.to_string(),
    })
}

/// A plain Envoy whose admin port is 9901 on loopback.
#[must_use]
pub fn envoy_container(name: &str) -> Value {
    json!({ "name": name, "image": ENVOY, "imagePullPolicy": "Never" })
}

/// The container that Dapr's injector adds. Only the mode differs: there is no control plane, so it is standalone.
#[must_use]
pub fn dapr_container() -> Value {
    let port = DAPR_PORT.to_string();
    let probe = json!({
        "httpGet": { "path": "/v1.0/healthz", "port": 3501 },
        "timeoutSeconds": 3,
        "periodSeconds": 6,
        "failureThreshold": 3,
    });
    json!({
        "name": "daprd",
        "image": DAPR,
        "imagePullPolicy": "Never",
        "args": [
            "/daprd", "--dapr-http-port", port, "--dapr-grpc-port", "50001",
            "--dapr-internal-grpc-port", "50002", "--dapr-listen-addresses", "[::1],127.0.0.1",
            "--dapr-public-port", "3501", "--app-id", "job", "--app-protocol", "http",
            "--log-level", "info", "--dapr-graceful-shutdown-seconds", "-1",
            "--mode", "standalone", "--enable-metrics", "--metrics-port", "9090",
        ],
        "ports": [
            { "containerPort": DAPR_PORT, "name": "dapr-http" },
            { "containerPort": 50001, "name": "dapr-grpc" },
            { "containerPort": 50002, "name": "dapr-internal" },
            { "containerPort": 9090, "name": "dapr-metrics" },
        ],
        "env": [
            { "name": "NAMESPACE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } },
            { "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
        ],
        "readinessProbe": probe,
        "livenessProbe": probe,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
        },
    })
}

/// The annotations by which a pod requests Dapr's sidecar.
#[must_use]
pub fn dapr_annotations() -> Value {
    json!({ "dapr.io/enabled": "true", "dapr.io/app-id": "job" })
}

/// A Cloud SQL proxy as users declare it in their pods, with flags such as `--quitquitquit`. The token is not
/// valid and the instance does not exist, which the proxy would notice at the first connection.
#[must_use]
pub fn cloud_sql_proxy_container(flags: &[&str]) -> Value {
    let instance = format!("project:region:instance?port={SQL_PORT}");
    let mut args = vec!["--token", "none"];
    args.extend(flags);
    args.push(&instance);
    json!({
        "name": "cloud-sql-proxy",
        "image": CLOUD_SQL_PROXY,
        "imagePullPolicy": "Never",
        "args": args,
        "securityContext": { "runAsNonRoot": true },
    })
}
