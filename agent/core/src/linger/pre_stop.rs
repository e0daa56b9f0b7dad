//! `usher.dev/pre-stop`: the stop signals of a deleted pod's apps wait for a fixed time, or until their clients are silent.

mod auto;
pub(super) mod inbound;
pub(crate) mod quiet;
pub mod traffic;

use std::time::Duration;

use super::{NoLinger, reserve};
use crate::{decision::NotApplicable, plan::Plan, pod::spec::Pod, settings::overrides::PreStop};

/// How long the stop signal of an app may be held at most.
///
/// # Errors
/// Why it does not wait.
pub(crate) fn limit(pod: &Pod, plan: &Plan) -> Result<Duration, NoLinger> {
    let requested = plan.tuning.pre_stop.ok_or(NoLinger::NotRequested)?;
    if plan.not_ours == Some(NotApplicable::ExcludedNamespace) {
        return Err(NoLinger::ExcludedNamespace);
    }
    let (grace, reserve) = (pod.grace, reserve::of_apps(pod, plan));
    let left = grace.saturating_sub(reserve);
    if left.is_zero() {
        return Err(NoLinger::Grace { grace, reserve });
    }
    Ok(match requested {
        PreStop::For(time) => time.min(left),
        PreStop::Auto => left,
    })
}
