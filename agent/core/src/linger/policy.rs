//! Whether a sidecar lingers, and for how long at most.

use std::time::Duration;

use super::reserve;
use crate::{
    base::duration::setting,
    decision::NotApplicable,
    plan::{Plan, Sidecar},
    pod::spec::Pod,
    recipe::Linger,
    settings::overrides::LingerKind,
};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoLinger {
    #[error("no annotation requests it")]
    NotRequested,
    #[error("the configuration excludes the pod's namespace")]
    ExcludedNamespace,
    #[error("the pod has no app container")]
    NoApp,
    #[error("its recipe: it needs its stop signal at once")]
    Recipe,
    #[error(
        "the pod's grace period of {} leaves no time, because the container needs {} after its stop signal",
        setting(*.grace),
        setting(*.reserve)
    )]
    Grace { grace: Duration, reserve: Duration },
}

/// How long the stop signal of a sidecar may be held at most.
pub(crate) fn limit(pod: &Pod, plan: &Plan, sidecar: &Sidecar) -> Result<Duration, NoLinger> {
    let requested = match plan.tuning.linger {
        LingerKind::Unset | LingerKind::No => return Err(NoLinger::NotRequested),
        LingerKind::UntilAppsEnd => Duration::MAX,
        LingerKind::For(limit) => limit,
    };
    longest(pod, plan, sidecar).map(|longest| requested.min(longest))
}

/// The same as if the pod requested it without a limit.
pub(crate) fn longest(pod: &Pod, plan: &Plan, sidecar: &Sidecar) -> Result<Duration, NoLinger> {
    match &plan.not_ours {
        Some(NotApplicable::ExcludedNamespace) => return Err(NoLinger::ExcludedNamespace),
        Some(NotApplicable::NoApp) => return Err(NoLinger::NoApp),
        _ => {}
    }
    if sidecar.linger == Linger::Never {
        return Err(NoLinger::Recipe);
    }
    let grace = pod.grace;
    let reserve = reserve::of(plan, sidecar, grace);
    let left = grace.saturating_sub(reserve);
    if left.is_zero() {
        return Err(NoLinger::Grace { grace, reserve });
    }
    Ok(left)
}
