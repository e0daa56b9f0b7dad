//! A pod's spec. Fields that the API omits when they are not set are omitted here, too.

use serde_json::{Value, json};

use super::metadata::is_istio;
use crate::synthetic::spec::{ContainerSpec, ISTIO_PROXY, PodSpec, RestartRule, Variable};

pub(super) fn pod_spec(node: &str, spec: &PodSpec) -> Value {
    let containers: Vec<Value> = spec.containers.iter().map(container_spec).collect();
    let mut pod = json!({
        "volumes": volumes(is_istio(spec)),
        "containers": containers,
        "restartPolicy": spec.restart_policy.name(),
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
    });
    if !spec.init_containers.is_empty() {
        let inits: Vec<Value> = spec.init_containers.iter().map(container_spec).collect();
        pod["initContainers"] = json!(inits);
    } else if is_istio(spec) && spec.announced.is_none() {
        pod["initContainers"] = json!([{
            "name": "istio-init", "image": "registry.example/istio/proxyv2:1.26.2",
            "args": ["istio-iptables", "-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT"],
            "terminationMessagePath": "/dev/termination-log", "resources": {},
        }]);
    }
    let flags = [
        ("shareProcessNamespace", spec.shares.processes),
        ("hostPID", spec.shares.host_pids),
        ("hostNetwork", spec.shares.host_network),
    ];
    for (key, _) in flags.into_iter().filter(|(_, set)| *set) {
        pod[key] = json!(true);
    }
    if spec.shares.own_users {
        pod["hostUsers"] = json!(false);
    }
    for (key, value) in &spec.fields {
        pod[key.as_str()] = value.clone();
    }
    if let Some(name) = &spec.runtime_class {
        pod["runtimeClassName"] = json!(name);
    }
    pod
}

fn volumes(istio: bool) -> Value {
    let token = json!({"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]}});
    if !istio {
        return json!([token]);
    }
    json!([
        {"name": "workload-socket", "emptyDir": {}},
        {"name": "istio-envoy", "emptyDir": {"medium": "Memory"}},
        {"name": "istio-podinfo", "downwardAPI": {"defaultMode": 420, "items": [
            {"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}},
            {"path": "annotations", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.annotations"}},
        ]}},
        {"name": "istiod-ca-cert", "configMap": {"name": "istio-ca-root-cert", "defaultMode": 420}},
        token,
    ])
}

fn container_spec(container: &ContainerSpec) -> Value {
    let mut env = vec![
        json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}),
        json!({"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}}),
    ];
    env.extend(container.env.iter().map(variable));
    let mut spec = json!({
        "name": container.name,
        "image": container.image,
        "env": env,
        "resources": {},
        "volumeMounts": [
            {"name": "kube-api-access-x7k2p", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    });
    for (key, words) in [("command", &container.command), ("args", &container.args)] {
        if !words.is_empty() {
            spec[key] = json!(words);
        }
    }
    if let Some(user) = container.user {
        spec["securityContext"] = json!({"runAsUser": user, "runAsGroup": user});
    }
    if let Some(policy) = container.restart_policy {
        spec["restartPolicy"] = json!(policy.name());
    }
    if !container.restart_rules.is_empty() {
        let rules: Vec<Value> = container
            .restart_rules
            .iter()
            .map(RestartRule::json)
            .collect();
        spec["restartPolicyRules"] = json!(rules);
    }
    for probe in &container.probes {
        let (key, probe) = probe.json();
        spec[key] = probe;
    }
    for (key, value) in &container.fields {
        spec[key.as_str()] = value.clone();
    }
    if container.name == ISTIO_PROXY {
        spec["ports"] =
            json!([{"name": "http-envoy-prom", "containerPort": 15090, "protocol": "TCP"}]);
        spec["readinessProbe"] = json!({
            "httpGet": {"path": "/healthz/ready", "port": 15021, "scheme": "HTTP"},
            "timeoutSeconds": 3, "periodSeconds": 15, "successThreshold": 1, "failureThreshold": 4,
        });
    }
    spec
}

fn variable(variable: &Variable) -> Value {
    let Variable {
        name,
        value,
        secret,
    } = variable;
    if *secret {
        return json!({"name": name, "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "token"}}});
    }
    json!({"name": name, "value": value})
}
