//! The costs of all pods since the agent started, by Namespace.

use std::collections::BTreeMap;

use super::{Amount, Connections};
use crate::admin::NamespaceCost;

/// Namespaces with figures of their own. The others share one entry, so that pods cannot fill the memory.
const MOST_NAMESPACES: usize = 1024;

/// Costs by Namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    namespaces: BTreeMap<String, Total>,
    /// Pods of all other Namespaces.
    others: Total,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Total {
    pods: u64,
    running: u64,
    pod_seconds: f64,
    cpu_seconds: f64,
    memory_byte_seconds: f64,
    sidecar_cpu_seconds: f64,
    sidecar_memory_byte_seconds: f64,
    gap_seconds: f64,
    connections: Connections,
}

impl Ledger {
    pub(crate) fn add(&mut self, namespace: &str, amount: Amount) {
        if !(amount.ran_on.is_zero() && amount.gap.is_zero()) {
            self.total(namespace).add(amount);
        }
    }

    pub(crate) fn add_connections(&mut self, namespace: &str, connections: Connections) {
        if connections != Connections::default() {
            self.total(namespace).connections.add(connections);
        }
    }

    /// Counts a pod with sidecars that run on now.
    pub(crate) fn add_running(&mut self, namespace: &str) {
        self.total(namespace).running += 1;
    }

    pub(crate) fn costs(&self) -> Vec<NamespaceCost> {
        let named = self.namespaces.iter();
        let others = (self.others != Total::default()).then_some((None, &self.others));
        named
            .map(|(name, total)| (Some(name.clone()), total))
            .chain(others)
            .map(|(name, total)| total.cost(name))
            .collect()
    }

    fn total(&mut self, namespace: &str) -> &mut Total {
        let is_full = self.namespaces.len() >= MOST_NAMESPACES;
        if is_full && !self.namespaces.contains_key(namespace) {
            return &mut self.others;
        }
        self.namespaces.entry(namespace.to_owned()).or_default()
    }
}

impl Total {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a request of more than 9 PB is rounded"
    )]
    fn add(&mut self, amount: Amount) {
        let seconds = amount.ran_on.as_secs_f64();
        let Amount {
            pods,
            pod_requests: pod,
            sidecar_requests: sidecar,
            gap,
            ..
        } = amount;
        self.pods += pods;
        self.pod_seconds += seconds;
        self.cpu_seconds += seconds * pod.cpu_millis as f64 / 1000.0;
        self.memory_byte_seconds += seconds * pod.memory_bytes as f64;
        self.sidecar_cpu_seconds += seconds * sidecar.cpu_millis as f64 / 1000.0;
        self.sidecar_memory_byte_seconds += seconds * sidecar.memory_bytes as f64;
        self.gap_seconds += gap.as_secs_f64();
    }

    fn cost(&self, namespace: Option<String>) -> NamespaceCost {
        const HOUR: f64 = 3600.0;
        const GIB_HOUR: f64 = HOUR * (1_u64 << 30) as f64;
        NamespaceCost {
            namespace,
            pods: self.pods,
            running: self.running,
            pod_hours: self.pod_seconds / HOUR,
            cpu_hours: self.cpu_seconds / HOUR,
            memory_gib_hours: self.memory_byte_seconds / GIB_HOUR,
            sidecar_cpu_hours: self.sidecar_cpu_seconds / HOUR,
            sidecar_memory_gib_hours: self.sidecar_memory_byte_seconds / GIB_HOUR,
            refused_connections: self.connections.refused,
            sigterm_gap_seconds: self.gap_seconds,
            open_at_stop_connections: self.connections.open_at_stop,
            after_stop_connections: self.connections.after_stop,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn namespaces_are_bounded() {
        let mut ledger = Ledger::default();
        let amount = Amount {
            pods: 1,
            ran_on: Duration::from_secs(3600),
            ..Amount::default()
        };
        for number in 0..MOST_NAMESPACES + 10 {
            ledger.add(&format!("n{number}"), amount);
        }
        ledger.add("n0", amount);
        let connections = Connections {
            refused: 3,
            open_at_stop: 4,
            after_stop: 5,
        };
        ledger.add_connections("another", connections);
        ledger.add_connections("n1", connections);
        // Nothing to count takes no entry.
        ledger.add("n0", Amount::default());
        ledger.add_connections("n0", Connections::default());
        let costs = ledger.costs();
        assert_eq!(costs.len(), MOST_NAMESPACES + 1);
        assert_eq!((costs[0].pods, costs[1].pods), (2, 1));
        let others = &costs[MOST_NAMESPACES];
        assert_eq!(others.namespace, None);
        assert_eq!(others.pods, 10);
        for (cost, expected) in [
            (&costs[0], [0, 0, 0]),
            (&costs[1], [3, 4, 5]),
            (others, [3, 4, 5]),
        ] {
            let counted = [
                cost.refused_connections,
                cost.open_at_stop_connections,
                cost.after_stop_connections,
            ];
            assert_eq!(counted, expected, "{cost:?}");
        }
        assert!((others.pod_hours - 10.0).abs() < 1e-9);
    }
}
