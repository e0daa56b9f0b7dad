//! The apps whose starts are held, and the limits of the holds.

use std::{collections::BTreeSet, time::Duration};

use super::Plan;
use crate::{
    pod::spec::{Container, Pod},
    start::{NotHeld, Probed, probe_limit},
};

/// An app whose start is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedStart {
    pub(crate) container: String,
    pub(crate) limit: Result<Duration, NotHeld>,
    /// The probe that sets the limit, if one does.
    pub(crate) probe: Option<Probed>,
}

/// The apps of a pod whose starts are held. An app with held ports is not one of them: it would wait for itself.
pub(super) fn starts(pod: &Pod, plan: &Plan) -> Vec<PlannedStart> {
    let (awaited, hooks) = (awaited(plan), hooks(pod, plan));
    plan.apps(pod)
        .filter(|app| !awaited.contains(&app.name[..]))
        .map(|app| {
            let mut planned = planned(app, plan.tuning.hold_deadline);
            // The hook may wait for the app, and the app would wait for a sidecar that is created after the hook.
            if let Some(hook) = hooks.iter().find(|hook| hook.app == app.name) {
                let sidecar = hook.sidecar.to_owned();
                planned.limit = Err(NotHeld::PostStart { sidecar });
            }
            planned
        })
        .collect()
}

/// A `postStart` hook of an app. The kubelet creates the sidecar only when the hook has returned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hook<'pod> {
    pub(crate) app: &'pod str,
    pub(crate) sidecar: &'pod str,
}

/// The hooks that run before a sidecar with held ports is created.
pub(crate) fn hooks<'pod>(pod: &'pod Pod, plan: &Plan) -> Vec<Hook<'pod>> {
    let awaited = awaited(plan);
    let containers = pod.containers.iter().enumerate();
    containers
        .filter(|(_place, app)| app.has_post_start && plan.is_app(&app.name))
        .filter_map(|(place, app)| {
            let mut later = pod.containers.iter().skip(place + 1);
            let sidecar = later.find(|later| awaited.contains(&later.name[..]))?;
            Some(Hook {
                app: &app.name,
                sidecar: &sidecar.name,
            })
        })
        .collect()
}

/// The containers with held ports.
fn awaited(plan: &Plan) -> BTreeSet<&str> {
    let held_ports = plan.held_ports().into_iter();
    held_ports.map(|held_port| &held_port.sidecar[..]).collect()
}

fn planned(app: &Container, deadline: Duration) -> PlannedStart {
    let limit = probe_limit::of(app).filter(|limit| limit.for_ < deadline);
    let probe = limit.map(|limit| Probed {
        kind: limit.by,
        kills_after: limit.kills_after,
    });
    let limit = limit.map_or(deadline, |limit| limit.for_);
    PlannedStart {
        container: app.name.clone(),
        limit: match probe {
            Some(probe) if limit.is_zero() => Err(NotHeld::Probe(probe)),
            _ => Ok(limit),
        },
        probe,
    }
}
