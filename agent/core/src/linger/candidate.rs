//! The containers of a pod with stop signals that may wait: sidecars that linger, and apps with a pre-stop time.

use std::time::Duration;

use super::{NoLinger, limit, longest, pre_stop, reserve};
use crate::{
    decision::NotApplicable,
    pod::view::PodView,
    settings::overrides::{LingerKind, PreStop},
};

#[derive(Debug)]
pub(super) struct Candidate<'view> {
    pub(super) name: &'view str,
    pub(super) is_app: bool,
    /// Its traffic decides how long the stop signal is held.
    pub(super) is_auto: bool,
    /// How long its stop signal may be held.
    pub(super) limit: Result<Duration, NoLinger>,
    /// The limit that the annotation sets.
    pub(super) setting: Option<Duration>,
    /// The part of the grace period that it needs after its stop signal.
    pub(super) reserve: Duration,
}

/// Those for which the pod requests it, including those whose stop signals cannot wait.
pub(super) fn candidates(view: &PodView) -> impl Iterator<Item = Candidate<'_>> {
    let linger_limit = match view.plan.tuning.linger {
        LingerKind::For(limit) => Some(limit),
        LingerKind::Unset | LingerKind::No | LingerKind::UntilAppsEnd => None,
    };
    let sidecars = view.plan.sidecars.iter().map(move |sidecar| Candidate {
        name: &sidecar.name,
        is_app: false,
        is_auto: false,
        limit: limit(&view.spec, &view.plan, sidecar),
        setting: linger_limit,
        reserve: reserve::of(&view.plan, sidecar, view.spec.grace),
    });
    let pre_stop_time = match view.plan.tuning.pre_stop {
        Some(PreStop::For(time)) => Some(time),
        Some(PreStop::Auto) | None => None,
    };
    let reserve = pre_stop::reserve(&view.spec, &view.plan);
    let apps = view.plan.apps(&view.spec).map(move |app| Candidate {
        name: &app.name,
        is_app: true,
        is_auto: view.plan.tuning.pre_stop == Some(PreStop::Auto),
        limit: pre_stop::limit(&view.spec, &view.plan),
        setting: pre_stop_time,
        reserve,
    });
    sidecars
        .chain(apps)
        .filter(|candidate| candidate.limit != Err(NoLinger::NotRequested))
}

/// Those with stop signals that observe mode reports, whether the pod requests a hold or not.
pub(super) fn observed(view: &PodView) -> impl Iterator<Item = Candidate<'_>> {
    let spec = &view.spec;
    let is_excluded = view.plan.not_ours == Some(NotApplicable::ExcludedNamespace);
    let lingers = view.plan.tuning.linger != LingerKind::No;
    let sidecars = view
        .plan
        .sidecars
        .iter()
        .filter(move |sidecar| lingers && longest(spec, &view.plan, sidecar).is_ok());
    let sidecars = sidecars.map(|sidecar| (&*sidecar.name, false));
    let apps = view.plan.apps(spec);
    let apps = apps
        .filter(move |_| !is_excluded && !spec.host_network)
        .map(|app| (&*app.name, true));
    sidecars.chain(apps).map(|(name, is_app)| Candidate {
        name,
        is_app,
        is_auto: false,
        limit: Ok(Duration::ZERO),
        setting: None,
        reserve: Duration::ZERO,
    })
}
