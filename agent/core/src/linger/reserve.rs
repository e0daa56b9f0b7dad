//! The part of the grace period that is left to each sidecar after its stop signal.

use std::time::Duration;

use crate::{
    plan::{Plan, SHORTEST_RESERVE, Sidecar},
    recipe::Stage,
};

/// The part of this grace period that is left when a sidecar has to receive its stop signal: what it needs itself, and what
/// the sidecars of later stages need after it. Where that is more than the grace period, its own part, or half of it.
pub(super) fn of(plan: &Plan, sidecar: &Sidecar, grace: Duration) -> Duration {
    let own = sidecar.reserve();
    let later = [Stage::Logs, Stage::Mesh]
        .into_iter()
        .filter(|stage| *stage > sidecar.stage)
        .filter_map(|stage| {
            let sidecars = plan.sidecars.iter().filter(|other| other.stage == stage);
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
