//! The cost of sidecars that outlive their apps, by Namespace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The costs on one or several nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CostReport {
    pub nodes: Vec<CountingNode>,
    pub items: Vec<NamespaceCost>,
}

/// A node and the time since which its agent counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CountingNode {
    /// Empty where the name is not known.
    #[serde(default)]
    pub node: String,
    /// When the agent started, in milliseconds since 1970.
    pub since_ms: u64,
    /// How long ago that was.
    pub for_ms: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceCost {
    /// None for all Namespaces beyond those that are counted separately.
    pub namespace: Option<String>,
    /// Pods whose sidecars ran on after the apps.
    pub pods: u64,
    /// Pods among them whose sidecars run now.
    pub running: u64,
    /// Time that sidecars ran on after the apps of their pod.
    pub pod_hours: f64,
    /// The CPU requests of those pods for that time, in core-hours.
    pub cpu_hours: f64,
    /// The memory requests of those pods for that time.
    pub memory_gib_hours: f64,
    /// The sidecars' share of it.
    pub sidecar_cpu_hours: f64,
    pub sidecar_memory_gib_hours: f64,
    /// Connections that were refused in observe mode, and that a hold would have prevented.
    pub refused_connections: u64,
    /// Time that apps of deleted pods ran on after a sidecar had ended.
    pub sigterm_gap_seconds: f64,
    /// Connections of deleted pods that were open at the stop signal of a sidecar that ended before the apps, in observe
    /// mode.
    pub open_at_stop_connections: u64,
    /// Connections that clients opened to deleted pods after the stop signal of an app, in observe mode.
    pub after_stop_connections: u64,
}

impl CostReport {
    /// One report of several nodes, with the costs added up.
    #[must_use]
    pub fn sum(reports: impl IntoIterator<Item = Self>) -> Self {
        let mut nodes = Vec::new();
        let mut items: BTreeMap<(bool, Option<String>), NamespaceCost> = BTreeMap::new();
        for report in reports {
            nodes.extend(report.nodes);
            for cost in report.items {
                let key = (cost.namespace.is_none(), cost.namespace.clone());
                items
                    .entry(key)
                    .or_insert_with(|| NamespaceCost {
                        namespace: cost.namespace.clone(),
                        ..NamespaceCost::default()
                    })
                    .add(&cost);
            }
        }
        nodes.sort();
        Self {
            nodes,
            items: items.into_values().collect(),
        }
    }

    pub fn total(&self) -> NamespaceCost {
        let mut total = NamespaceCost::default();
        self.items.iter().for_each(|cost| total.add(cost));
        total
    }
}

impl NamespaceCost {
    pub(crate) fn add(&mut self, other: &Self) {
        self.pods += other.pods;
        self.running += other.running;
        self.pod_hours += other.pod_hours;
        self.cpu_hours += other.cpu_hours;
        self.memory_gib_hours += other.memory_gib_hours;
        self.sidecar_cpu_hours += other.sidecar_cpu_hours;
        self.sidecar_memory_gib_hours += other.sidecar_memory_gib_hours;
        self.sigterm_gap_seconds += other.sigterm_gap_seconds;
        self.refused_connections = self
            .refused_connections
            .saturating_add(other.refused_connections);
        self.open_at_stop_connections = self
            .open_at_stop_connections
            .saturating_add(other.open_at_stop_connections);
        self.after_stop_connections = self
            .after_stop_connections
            .saturating_add(other.after_stop_connections);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(namespace: Option<&str>, pods: u64, pod_hours: f64) -> NamespaceCost {
        NamespaceCost {
            namespace: namespace.map(str::to_owned),
            pods,
            pod_hours,
            refused_connections: pods,
            open_at_stop_connections: 10 * pods,
            after_stop_connections: 100 * pods,
            ..NamespaceCost::default()
        }
    }

    fn report(node: &str, items: Vec<NamespaceCost>) -> CostReport {
        let node = node.to_owned();
        CostReport {
            nodes: vec![CountingNode {
                node,
                ..CountingNode::default()
            }],
            items,
        }
    }

    #[test]
    fn reports_of_nodes_are_added_by_namespace() {
        let sum = CostReport::sum([
            report("b", vec![cost(Some("shop"), 2, 1.5), cost(None, 1, 0.25)]),
            report(
                "a",
                vec![cost(Some("infra"), 1, 1.0), cost(Some("shop"), 3, 0.5)],
            ),
        ]);
        let nodes: Vec<&str> = sum.nodes.iter().map(|node| &node.node[..]).collect();
        assert_eq!(nodes, ["a", "b"]);
        assert_eq!(
            sum.items,
            [
                cost(Some("infra"), 1, 1.0),
                cost(Some("shop"), 5, 2.0),
                cost(None, 1, 0.25),
            ]
        );
        assert_eq!(sum.total(), cost(None, 7, 3.25));
    }
}
