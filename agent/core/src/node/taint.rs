//! The startup taint: a node accepts no pod before usher is ready there.
//!
//! The kubelet or the node pool registers the node with the taint; usher removes it when it is ready. Other clients
//! change the same list. So the change is a JSON patch that first tests that the list is unchanged ([RFC
//! 6902](https://www.rfc-editor.org/rfc/rfc6902#section-4.6)); otherwise the API server rejects it.

use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq)]
pub struct Removal {
    /// The taints, as `KEY=VALUE:EFFECT`.
    pub taints: Vec<String>,
    pub patch: Value,
}

/// The removal of the taints with this key from a Node's `spec.taints`; None where there is none.
pub fn removal(key: &str, taints: &[Value]) -> Option<Removal> {
    let is_ours = |taint: &&Value| taint.get("key").and_then(Value::as_str) == Some(key);
    let (ours, others): (Vec<&Value>, Vec<&Value>) = taints.iter().partition(is_ours);
    if ours.is_empty() || key.is_empty() {
        return None;
    }
    let path = "/spec/taints";
    let change = if others.is_empty() {
        json!({"op": "remove", "path": path})
    } else {
        json!({"op": "replace", "path": path, "value": others})
    };
    Some(Removal {
        taints: ours.into_iter().map(described).collect(),
        patch: json!([{"op": "test", "path": path, "value": taints}, change]),
    })
}

fn described(taint: &Value) -> String {
    let field = |name| taint.get(name).and_then(Value::as_str).unwrap_or_default();
    let value = match field("value") {
        "" => String::new(),
        value => format!("={value}"),
    };
    format!("{}{value}:{}", field("key"), field("effect"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "usher.dev/not-ready";

    fn taint(key: &str, effect: &str) -> Value {
        json!({"key": key, "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn the_others_stay_as_they_are() {
        let ours = [taint(KEY, "NoSchedule"), taint(KEY, "NoExecute")];
        let other = taint("node.kubernetes.io/not-ready", "NoSchedule");
        let taints = [ours[0].clone(), other.clone(), ours[1].clone()];
        let found = removal(KEY, &taints).unwrap();
        let expected = [
            "usher.dev/not-ready:NoSchedule",
            "usher.dev/not-ready:NoExecute",
        ];
        assert_eq!(found.taints, expected);
        let patch = json!([
            {"op": "test", "path": "/spec/taints", "value": taints},
            {"op": "replace", "path": "/spec/taints", "value": [other]},
        ]);
        assert_eq!(found.patch, patch);
    }

    #[test]
    fn last_taint_removes_the_list() {
        let mut ours = taint(KEY, "NoSchedule");
        ours["value"] = "yes".into();
        let taints = [ours];
        let found = removal(KEY, &taints).unwrap();
        assert_eq!(found.taints, ["usher.dev/not-ready=yes:NoSchedule"]);
        let patch = json!([
            {"op": "test", "path": "/spec/taints", "value": taints},
            {"op": "remove", "path": "/spec/taints"},
        ]);
        assert_eq!(found.patch, patch);
    }

    #[test]
    fn missing_taint_changes_nothing() {
        let taints = [taint("usher.dev/not-ready-yet", "NoSchedule"), json!("?")];
        assert_eq!(removal(KEY, &taints), None);
        assert_eq!(removal(KEY, &[]), None);
        assert_eq!(removal("", &[taint("", "NoSchedule")]), None);
    }
}
