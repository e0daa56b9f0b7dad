//! The costs of all pods since the agent started, by Namespace.

use std::collections::BTreeMap;

use crate::{admin::NamespaceCost, decision::Kind};

/// Namespaces with figures of their own. The others share one entry, so that pods cannot fill the memory.
const MOST_NAMESPACES: usize = 1024;

/// Costs by Namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    namespaces: BTreeMap<String, NamespaceCost>,
    /// Pods of all other Namespaces.
    others: NamespaceCost,
}

impl Ledger {
    /// Adds costs of one pod.
    pub(crate) fn add(&mut self, namespace: &str, cost: &NamespaceCost) {
        if *cost == NamespaceCost::default() {
            return;
        }
        let is_full = self.namespaces.len() >= MOST_NAMESPACES;
        let total = if is_full && !self.namespaces.contains_key(namespace) {
            &mut self.others
        } else {
            self.namespaces.entry(namespace.to_owned()).or_default()
        };
        total.add(cost);
    }

    pub(crate) fn costs(self) -> Vec<NamespaceCost> {
        let named = self.namespaces.into_iter();
        let others = Some(self.others).filter(|others| *others != NamespaceCost::default());
        named
            .map(|(name, cost)| NamespaceCost {
                namespace: Some(name),
                ..cost
            })
            .chain(others)
            .collect()
    }
}

/// Adds the connections that a decision of observe mode reports. The decisions are those of one pod in one step.
pub(crate) fn count_connections(cost: &mut NamespaceCost, kind: &Kind) {
    match kind {
        Kind::WouldHold { tally, .. } => {
            let refused = u64::try_from(tally.connections).unwrap_or(u64::MAX);
            cost.refused_connections = cost.refused_connections.saturating_add(refused);
        }
        // Each sidecar reports the open connections of its whole pod.
        Kind::WouldLinger { connections, .. } => {
            let open = &mut cost.open_at_stop_connections;
            *open = (*open).max(connections.unwrap_or_default());
        }
        Kind::WouldPreStop { connections, .. } => {
            cost.after_stop_connections = cost.after_stop_connections.saturating_add(*connections);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_bounded() {
        let mut ledger = Ledger::default();
        let ran_on = NamespaceCost {
            pods: 1,
            pod_hours: 1.0,
            ..NamespaceCost::default()
        };
        for number in 0..MOST_NAMESPACES + 10 {
            ledger.add(&format!("n{number}"), &ran_on);
        }
        ledger.add("n0", &ran_on);
        let connections = NamespaceCost {
            refused_connections: 3,
            open_at_stop_connections: 4,
            after_stop_connections: 5,
            ..NamespaceCost::default()
        };
        ledger.add("another", &connections);
        ledger.add("n1", &connections);
        // Nothing to count takes no entry.
        ledger.add("n0", &NamespaceCost::default());
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
