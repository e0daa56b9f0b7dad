//! The part of the grace period that is left to each container after its stop signal.

use std::time::Duration;

use super::limit;
use crate::{
    plan::{Plan, SHORTEST_RESERVE, Sidecar},
    pod::spec::Pod,
    recipe::Order,
};

/// The part of this grace period that is left when a sidecar has to receive its stop signal: what it needs itself, and what
/// the sidecars of later stages need after it. Where that is more than the grace period, its own part, or half of it.
pub(super) fn of(plan: &Plan, sidecar: &Sidecar, grace: Duration) -> Duration {
    let own = sidecar.reserve();
    let later = [Order::Logs, Order::Mesh]
        .into_iter()
        .filter(|stage| *stage > sidecar.order)
        .filter_map(|stage| {
            let sidecars = plan.sidecars.iter().filter(|other| other.order == stage);
            sidecars.map(Sidecar::reserve).max()
        })
        .fold(Duration::ZERO, Duration::saturating_add);
    let all = own.saturating_add(later);
    if all < grace {
        all
    } else if own < grace {
        own
    } else {
        SHORTEST_RESERVE.max(grace / 2)
    }
}

/// The part that is left when an app has to receive its stop signal. It has time to end before the first sidecar that
/// lingers reaches its deadline: the shortest reserve, or half of the sidecar's time where that is less.
pub(super) fn of_apps(pod: &Pod, plan: &Plan) -> Duration {
    let sidecars = plan.sidecars.iter();
    let lingering = sidecars.filter(|sidecar| limit(pod, plan, sidecar).is_ok());
    let longest = lingering.map(|sidecar| of(plan, sidecar, pod.grace)).max();
    longest.map_or(SHORTEST_RESERVE, |longest| {
        longest + SHORTEST_RESERVE.min(pod.grace.saturating_sub(longest) / 2)
    })
}
