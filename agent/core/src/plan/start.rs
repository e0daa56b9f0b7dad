//! The apps whose starts are held, and the limits of the holds.

use std::time::Duration;

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
    let held_ports = plan.held_ports();
    let waited_for = |name: &str| held_ports.iter().any(|held_port| held_port.sidecar == name);
    plan.apps(pod)
        .filter(|app| !waited_for(&app.name))
        .map(|app| planned(app, plan.tuning.hold_deadline))
        .collect()
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
