//! The objects, and how requests change them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::DaemonSet;

/// The Node, the Namespaces' annotations, and the Events.
#[derive(Debug)]
pub(super) struct Objects {
    node: Value,
    version: u64,
    events: BTreeMap<(String, String), Value>,
    gone: BTreeSet<String>,
    /// Namespaces that are being deleted.
    terminating: BTreeSet<String>,
    namespaces: BTreeMap<String, Value>,
    daemonset: DaemonSet,
}

/// Status and body.
pub(super) type Answer = (u16, Value);

impl Objects {
    pub(super) fn new(node: &str) -> Self {
        Self {
            node: json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node, "uid": "of-the-node", "annotations": {}},
                "spec": {},
            }),
            version: 1,
            events: BTreeMap::new(),
            gone: BTreeSet::new(),
            terminating: BTreeSet::new(),
            namespaces: BTreeMap::new(),
            daemonset: DaemonSet::Deleted,
        }
    }

    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn annotate(&mut self, annotations: Value) {
        self.node["metadata"]["annotations"] = annotations;
        self.version += 1;
    }

    pub(super) fn label(&mut self, labels: Value) {
        self.node["metadata"]["labels"] = labels;
        self.version += 1;
    }

    pub(super) fn taint(&mut self, taints: Value) {
        self.node["spec"]["taints"] = taints;
        self.version += 1;
    }

    pub(super) fn add_taint(&mut self, taint: Value) {
        let mut taints = self.taints();
        taints.as_array_mut().expect("a list").push(taint);
        self.taint(taints);
    }

    pub(super) fn taints(&self) -> Value {
        let taints = self.node["spec"].get("taints");
        taints.cloned().unwrap_or_else(|| json!([]))
    }

    pub(super) fn annotate_namespace(&mut self, name: &str, annotations: Value) {
        self.namespaces.insert(name.to_owned(), annotations);
    }

    pub(super) fn namespace(&self, name: &str) -> Answer {
        if self.gone.contains(name) {
            return failure_about("namespaces", name, 404, "NotFound");
        }
        let mut namespace = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": name, "annotations": self.namespaces.get(name)},
        });
        if self.terminating.contains(name) {
            namespace["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        (200, namespace)
    }

    pub(super) fn set_daemonset(&mut self, daemonset: DaemonSet) {
        self.daemonset = daemonset;
    }

    pub(super) fn daemonset(&self, namespace: &str, name: &str) -> Answer {
        let mut metadata = json!({"name": name, "namespace": namespace});
        match self.daemonset {
            DaemonSet::Deleted => return failure_about("daemonsets", name, 404, "NotFound"),
            DaemonSet::Terminates => {
                metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                metadata["finalizers"] = json!(["foregroundDeletion"]);
            }
            DaemonSet::Exists => {}
        }
        let found = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata});
        (200, found)
    }

    pub(super) fn terminate_namespace(&mut self, name: &str) {
        self.terminating.insert(name.to_owned());
    }

    pub(super) fn delete_namespace(&mut self, name: &str) {
        self.gone.insert(name.to_owned());
        self.events
            .retain(|(namespace, _name), _event| namespace != name);
    }

    pub(super) fn events(&self) -> Vec<Value> {
        self.events.values().cloned().collect()
    }

    pub(super) fn node(&self, name: &str) -> Answer {
        if self.node["metadata"]["name"] != name {
            return failure(404, "NotFound");
        }
        let mut node = self.node.clone();
        node["metadata"]["resourceVersion"] = self.version.to_string().into();
        (200, node)
    }

    /// The same as metadata only.
    pub(super) fn partial_node(&self, name: &str) -> Answer {
        let (status, mut node) = self.node(name);
        if status == 200 {
            node["kind"] = "PartialObjectMetadata".into();
            node["apiVersion"] = "meta.k8s.io/v1".into();
            node.as_object_mut().expect("an object").remove("spec");
        }
        (status, node)
    }

    pub(super) fn patch_node(&mut self, patch: &Value) -> Answer {
        for step in patch.as_array().expect("a JSON patch") {
            assert_eq!(step["path"], "/spec/taints", "nothing else may change");
            match step["op"].as_str() {
                Some("test") if step["value"] != self.taints() => return failure(422, "Invalid"),
                Some("test") => {}
                Some("replace") => self.taint(step["value"].clone()),
                Some("remove") => self.taint(json!([])),
                other => panic!("{other:?} in a JSON patch"),
            }
        }
        (200, self.node.clone())
    }

    pub(super) fn create_event(&mut self, namespace: &str, event: &Value) -> Answer {
        if self.gone.contains(namespace) {
            return failure_about("namespaces", namespace, 404, "NotFound");
        }
        let name = event["metadata"]["name"].as_str().expect("a name");
        let key = (namespace.to_owned(), name.to_owned());
        if self.events.contains_key(&key) {
            return failure_about("events", name, 409, "AlreadyExists");
        }
        check(namespace, event);
        self.events.insert(key, event.clone());
        (201, event.clone())
    }

    pub(super) fn patch_event(&mut self, namespace: &str, name: &str, patch: &Value) -> Answer {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(event) = self.events.get_mut(&key) else {
            return failure_about("events", name, 404, "NotFound");
        };
        let fields = patch.as_object().expect("a merge patch");
        assert!(fields.keys().eq(["series"]), "nothing else may change");
        event["series"] = patch["series"].clone();
        (200, event.clone())
    }
}

pub(super) fn failure(code: u16, reason: &str) -> Answer {
    failed(code, reason, &format!("as the test wants it: {reason}"))
}

/// A failure that concerns one object.
fn failure_about(kind: &str, name: &str, code: u16, reason: &str) -> Answer {
    let (status, mut body) = failure(code, reason);
    body["details"] = json!({"name": name, "kind": kind});
    (status, body)
}

/// The message of the real API server, which distinguishes it from a rejection by a quota or a policy.
pub(super) fn no_right(verb: &str, resource: &str) -> Answer {
    let message =
        format!("{resource} is forbidden: User \"usher\" cannot {verb} resource \"{resource}\"");
    failed(403, "Forbidden", &message)
}

fn failed(code: u16, reason: &str, message: &str) -> Answer {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    (code, status)
}

/// The API server's validation of a new Event.
fn check(namespace: &str, event: &Value) {
    let bounded = |field: &str, longest| {
        let text = event[field].as_str().unwrap_or_default();
        assert!(
            !text.is_empty() && text.len() <= longest,
            "{field}: {event}"
        );
    };
    bounded("note", 1024);
    for field in [
        "reason",
        "action",
        "reportingController",
        "reportingInstance",
    ] {
        bounded(field, 128);
    }
    assert_eq!(event["metadata"]["namespace"], namespace);
    let regarding = event["regarding"]["namespace"]
        .as_str()
        .unwrap_or("default");
    assert_eq!(regarding, namespace);
    let time = event["eventTime"].as_str().unwrap_or_default();
    assert!(time.len() == 27 && time.ends_with('Z'), "{time}");
    assert!(["Normal", "Warning"].contains(&event["type"].as_str().unwrap_or_default()));
}
