//! `usher.dev/pre-stop`: the stop signals of a deleted pod's apps wait for a fixed time, or until their clients are silent.

mod auto;
pub(super) mod inbound;
pub(crate) mod quiet;
pub mod traffic;

use std::time::Duration;

use super::{NoLinger, policy, reserve};
use crate::{
    decision::NotApplicable,
    plan::{Plan, SHORTEST_RESERVE},
    pod::spec::Pod,
    settings::overrides::PreStop,
};

/// How long the stop signal of an app may be held at most.
pub(crate) fn limit(pod: &Pod, plan: &Plan) -> Result<Duration, NoLinger> {
    let requested = plan.tuning.pre_stop.ok_or(NoLinger::NotRequested)?;
    if plan.not_ours == Some(NotApplicable::ExcludedNamespace) {
        return Err(NoLinger::ExcludedNamespace);
    }
    let (grace, reserve) = (pod.grace, reserve(pod, plan));
    let left = grace.saturating_sub(reserve);
    if left.is_zero() {
        return Err(NoLinger::Grace { grace, reserve });
    }
    Ok(match requested {
        PreStop::For(time) => time.min(left),
        PreStop::Auto => left,
    })
}

/// The part of the grace period that is left when an app has to receive its stop signal. It has time to end before the
/// first sidecar that lingers has to: the shortest reserve, or half of the sidecar's time where that is less. A sidecar
/// with a limit of its own that is shorter by more than this time does not wait for the app.
pub(super) fn reserve(pod: &Pod, plan: &Plan) -> Duration {
    let before = |own: Duration| own + SHORTEST_RESERVE.min(pod.grace.saturating_sub(own) / 2);
    let reserves = plan.sidecars.iter().filter_map(|sidecar| {
        let left = pod
            .grace
            .saturating_sub(policy::limit(pod, plan, sidecar).ok()?);
        (left <= before(reserve::of(plan, sidecar, pod.grace))).then(|| before(left))
    });
    reserves.max().unwrap_or(SHORTEST_RESERVE)
}
