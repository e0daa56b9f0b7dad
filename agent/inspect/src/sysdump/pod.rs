//! Reduces a pod of the kubelet's list to the fields that commands read. The kept fields are an allow-list, so a field that
//! Kubernetes adds later is left out until it is added here.

use serde_json::{Map, Value};

use super::{Redaction, Rule};

/// The part of a value that is kept.
#[derive(Debug)]
enum Keep {
    /// All of it, redacted like any document.
    All,
    /// These members only.
    Fields(&'static [(&'static str, Keep)]),
    /// This part of each element.
    Each(&'static Keep),
    Notes,
    Variables,
    /// The arguments of a command line.
    Words,
}

use Keep::{All, Each, Fields, Notes, Variables, Words};

const POD: Keep = Fields(&[("metadata", METADATA), ("spec", SPEC), ("status", STATUS)]);
const METADATA: Keep = Fields(&[
    ("namespace", All),
    ("name", All),
    ("uid", All),
    ("creationTimestamp", All),
    ("deletionTimestamp", All),
    ("deletionGracePeriodSeconds", All),
    ("ownerReferences", Each(&OWNER)),
    ("annotations", Notes),
    ("labels", Notes),
]);
const OWNER: Keep = Fields(&[("kind", All), ("name", All), ("controller", All)]);
const SPEC: Keep = Fields(&[
    ("restartPolicy", All),
    ("activeDeadlineSeconds", All),
    ("terminationGracePeriodSeconds", All),
    ("nodeName", All),
    ("hostNetwork", All),
    ("hostPID", All),
    ("hostUsers", All),
    ("shareProcessNamespace", All),
    ("runtimeClassName", All),
    ("securityContext", SECURITY),
    ("initContainers", Each(&CONTAINER)),
    ("containers", Each(&CONTAINER)),
]);
const SECURITY: Keep = Fields(&[
    ("runAsUser", All),
    ("runAsGroup", All),
    ("runAsNonRoot", All),
    ("privileged", All),
    ("readOnlyRootFilesystem", All),
    ("capabilities", All),
]);
const CONTAINER: Keep = Fields(&[
    ("name", All),
    ("image", All),
    ("command", Words),
    ("args", Words),
    ("env", Variables),
    ("ports", All),
    ("resources", All),
    ("resizePolicy", All),
    ("restartPolicy", All),
    ("restartPolicyRules", All),
    ("securityContext", SECURITY),
    ("lifecycle", LIFECYCLE),
    ("startupProbe", PROBE),
    ("readinessProbe", PROBE),
    ("livenessProbe", PROBE),
]);
const LIFECYCLE: Keep = Fields(&[
    ("postStart", ACTION),
    ("preStop", ACTION),
    ("stopSignal", All),
]);
const ACTION: Keep = Fields(&[
    ("exec", EXEC),
    ("httpGet", GET),
    ("tcpSocket", All),
    ("sleep", All),
]);
const EXEC: Keep = Fields(&[("command", Words)]);
const GET: Keep = Fields(&[("path", All), ("port", All), ("scheme", All), ("host", All)]);
const PROBE: Keep = Fields(&[
    ("exec", EXEC),
    ("httpGet", GET),
    ("tcpSocket", All),
    ("grpc", All),
    ("initialDelaySeconds", All),
    ("timeoutSeconds", All),
    ("periodSeconds", All),
    ("successThreshold", All),
    ("failureThreshold", All),
    ("terminationGracePeriodSeconds", All),
]);
const STATUS: Keep = Fields(&[
    ("phase", All),
    ("reason", All),
    ("startTime", All),
    ("podIP", All),
    ("podIPs", All),
    ("hostIP", All),
    ("qosClass", All),
    ("conditions", Each(&CONDITION)),
    ("initContainerStatuses", Each(&RUN)),
    ("containerStatuses", Each(&RUN)),
]);
const CONDITION: Keep = Fields(&[
    ("type", All),
    ("status", All),
    ("reason", All),
    ("lastTransitionTime", All),
]);
const RUN: Keep = Fields(&[
    ("name", All),
    ("containerID", All),
    ("image", All),
    ("imageID", All),
    ("ready", All),
    ("started", All),
    ("restartCount", All),
    ("state", STATE),
    ("lastState", STATE),
]);
// Without messages: an app may write anything to its termination log.
const STATE: Keep = Fields(&[
    ("waiting", Fields(&[("reason", All)])),
    ("running", All),
    (
        "terminated",
        Fields(&[
            ("exitCode", All),
            ("signal", All),
            ("reason", All),
            ("startedAt", All),
            ("finishedAt", All),
            ("containerID", All),
        ]),
    ),
]);

/// Reduces a pod of the kubelet's list. A field with an unexpected type becomes null.
pub fn reduce(pod: &mut Value, redaction: &mut Redaction<'_>) {
    keep(&POD, pod, redaction);
}

fn keep(what: &Keep, value: &mut Value, redaction: &mut Redaction<'_>) {
    match (what, value) {
        (All, value) => redaction.document(value),
        (Fields(fields), Value::Object(members)) => {
            let before = members.len();
            members.retain(|name, _value| fields.iter().any(|(known, _)| known == name));
            redaction.count(Rule::Field, (before - members.len()) as u64);
            for (name, keeps) in *fields {
                if let Some(value) = members.get_mut(*name) {
                    keep(keeps, value, redaction);
                }
            }
        }
        (Each(keeps), Value::Array(values)) => {
            values
                .iter_mut()
                .for_each(|value| keep(keeps, value, redaction));
        }
        (Notes, Value::Object(notes)) => redaction.notes(notes),
        (Words, Value::Array(words)) => redaction.command_line(words),
        (Variables, Value::Array(values)) => {
            for value in values {
                variable(value, redaction);
            }
        }
        // The API writes null for an empty field.
        (_, Value::Null) => {}
        (_, value) => {
            redaction.count(Rule::Field, 1);
            *value = Value::Null;
        }
    }
}

/// Keeps the name, and the value if a rule allows it. `valueFrom` is removed: it names Secrets.
fn variable(value: &mut Value, redaction: &mut Redaction<'_>) {
    let mut kept = Map::new();
    if let Value::Object(members) = value {
        if members.remove("valueFrom").is_some() {
            redaction.count(Rule::Variable, 1);
        }
        if let Some(Value::String(name)) = members.remove("name") {
            if let Some(Value::String(mut value)) = members.remove("value") {
                redaction.variable(&name, &mut value);
                kept.insert("value".to_owned(), Value::String(value));
            }
            kept.insert("name".to_owned(), Value::String(name));
        }
    }
    *value = Value::Object(kept);
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use usher_core::{pod::list, recipe::Reads};

    fn reads() -> Reads {
        Reads {
            env: ["ADMIN_PORT".to_owned(), "API_TOKEN".to_owned()].into(),
            ..Reads::default()
        }
    }

    fn pod() -> Value {
        json!({
            "metadata": {
                "namespace": "shop", "name": "report", "uid": "0a1b2c3d-0000-4000-8000-000000000001",
                "annotations": {"usher.dev/quit": "false", "shop.example/pin": "1234"},
                "managedFields": [{"manager": "x"}],
            },
            "spec": {
                "restartPolicy": "Never", "serviceAccountName": "billing",
                "imagePullSecrets": [{"name": "registry"}],
                "volumes": [{"name": "v", "secret": {"secretName": "billing"}}],
                "containers": [{
                    "name": "app", "image": "app:1", "command": ["app", "--password", "hunter2"],
                    "env": [
                        {"name": "ADMIN_PORT", "value": "9901"},
                        {"name": "API_TOKEN", "value": "hunter3"},
                        {"name": "GREETING", "value": "hunter4"},
                        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "hunter5", "key": "k"}}},
                    ],
                    "readinessProbe": {"httpGet": {"path": "/", "port": 1,
                        "httpHeaders": [{"name": "Authorization", "value": "hunter6"}]}},
                    "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
                    "lifecycle": {"postStart": {"exec": {"command": ["pilot-agent", "wait"]}}},
                }],
            },
            "status": {"phase": "Failed", "message": "hunter7", "containerStatuses": [{
                "name": "app", "state": {"terminated": {"exitCode": 3, "message": "hunter8"}},
            }]},
        })
    }

    #[test]
    fn fields_that_commands_read_are_kept() {
        let (mut pod, reads) = (pod(), reads());
        let mut redaction = Redaction::new(&reads);
        reduce(&mut pod, &mut redaction);
        let text = pod.to_string();
        assert!(!text.contains("hunter"), "{text}");
        assert!(!text.contains("billing"), "{text}");
        let container = &pod["spec"]["containers"][0];
        assert_eq!(
            container["env"],
            json!([
                {"name": "ADMIN_PORT", "value": "9901"},
                {"name": "API_TOKEN", "value": "[redacted]"},
                {"name": "GREETING", "value": "[redacted]"},
                {"name": "KEY"},
            ])
        );
        assert_eq!(
            container["lifecycle"]["postStart"]["exec"]["command"],
            json!(["pilot-agent", "wait"])
        );
        assert_eq!(
            pod["status"]["containerStatuses"][0]["state"]["terminated"],
            json!({"exitCode": 3})
        );
        let counts = redaction.counts();
        assert_eq!(counts.get(&Rule::Variable), Some(&3), "{counts:?}");
        assert_eq!(counts.get(&Rule::Annotation), Some(&1));
        assert_eq!(counts.get(&Rule::Argument), Some(&1));
        // Managed fields, service account, pull secrets, volumes, headers of a probe, and two messages.
        assert_eq!(counts.get(&Rule::Field), Some(&7));
    }

    #[test]
    fn engine_reads_the_same_from_a_reduced_pod() {
        let reads = Reads {
            env: ["ADMIN_PORT".to_owned()].into(),
            ..Reads::default()
        };
        let list = |pod: &Value| {
            let body = json!({"items": [pod]}).to_string();
            list::parse(body.as_bytes(), &reads).unwrap().pods
        };
        let mut reduced = pod();
        reduced["spec"]["containers"][0]["command"] = json!(["app"]);
        let before = list(&reduced);
        reduce(&mut reduced, &mut Redaction::new(&reads));
        assert_eq!(list(&reduced), before);
        assert_eq!(before.len(), 1);
    }

    proptest! {
        #[test]
        fn any_value_is_accepted(name in "[a-z]{1,8}", text: String) {
            for mut value in [
                json!(text), json!([text]), json!({"spec": text}), json!({"metadata": {&name: &text}}),
                json!({"spec": {"containers": {&name: &text}}}),
                json!({"spec": {"containers": [{"env": [text, {"name": 1}, null], "args": {"a": 1}}]}}),
            ] {
                let reads = Reads::default();
                reduce(&mut value, &mut Redaction::new(&reads));
            }
        }
    }
}
