//! Whether a sidecar lingers, and for how long at most.

use std::{fmt, time::Duration};

use super::reserve;
use crate::{
    base::duration::setting,
    decision::NotApplicable,
    plan::{Plan, Sidecar},
    pod::spec::Pod,
    recipe::Linger,
    settings::overrides::LingerKind,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoLinger {
    NotRequested,
    ExcludedNamespace,
    NoApp,
    /// Its recipe: it needs its stop signal at once.
    Recipe,
    /// The grace period leaves no time.
    Grace {
        grace: Duration,
        reserve: Duration,
    },
}

impl fmt::Display for NoLinger {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRequested => out.write_str("no annotation requests it"),
            Self::ExcludedNamespace => {
                out.write_str("the configuration excludes the pod's namespace")
            }
            Self::NoApp => out.write_str("the pod has no app container"),
            Self::Recipe => out.write_str("its recipe: it needs its stop signal at once"),
            Self::Grace { grace, reserve } => write!(
                out,
                "the pod's grace period of {} leaves no time, because the container needs {} after its stop signal",
                setting(*grace),
                setting(*reserve)
            ),
        }
    }
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
