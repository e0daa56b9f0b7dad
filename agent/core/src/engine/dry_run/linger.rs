//! Which stop signals usher would hold.

use std::time::Duration;

use super::ms;
use crate::{
    admin::{Acts, Linger, Stop},
    linger::{self, NoLinger, Unmeasured},
    plan::Sidecar,
    pod::view::PodView,
    settings::{
        mode::Mode,
        overrides::{LingerKind, PreStop},
    },
};

/// None where the pod does not request it.
pub(super) fn forecast(view: &PodView) -> Option<Linger> {
    let plan = &view.plan;
    let lingers = !matches!(plan.tuning.linger, LingerKind::Unset | LingerKind::No);
    let has_pre_stop = plan.tuning.pre_stop.is_some();
    if !lingers && !has_pre_stop {
        return None;
    }
    let sidecars = plan.sidecars.iter().filter(|_| lingers);
    let sidecars: Vec<Stop> = sidecars
        .map(|sidecar| sidecar_stop(sidecar, view))
        .collect();
    let apps = plan.apps(&view.spec).filter(|_| has_pre_stop);
    let apps: Vec<Stop> = apps.map(|app| app_stop(&app.name, view)).collect();
    let mut all = sidecars.iter().chain(&apps);
    let any_waits = all.any(|stop| stop.limit_ms.is_some());
    Some(Linger {
        mode: view.modes.linger.to_string(),
        acts: if any_waits && view.modes.linger == Mode::Enforce {
            Acts::Later
        } else {
            Acts::No
        },
        sidecars,
        apps,
    })
}

fn sidecar_stop(sidecar: &Sidecar, view: &PodView) -> Stop {
    let limit = linger::limit(&view.spec, &view.plan, sidecar);
    let drain = sidecar.drain.as_ref().filter(|_| limit.is_ok());
    Stop {
        drain: drain.map(ToString::to_string),
        ..stop(&sidecar.name, limit)
    }
}

fn app_stop(container: &str, view: &PodView) -> Stop {
    let stop = stop(container, linger::pre_stop::limit(&view.spec, &view.plan));
    let Some(limit) = stop
        .limit_ms
        .filter(|_| view.plan.tuning.pre_stop == Some(PreStop::Auto))
    else {
        return stop;
    };
    let least = ms(linger::FLOOR).min(limit);
    if view.spec.host_network {
        let why = Unmeasured::HostNetwork;
        return Stop {
            limit_ms: Some(least),
            why: Some(format!("its traffic cannot be measured: {why}")),
            ..stop
        };
    }
    Stop {
        least_ms: Some(least),
        silence_ms: Some(ms(linger::SILENCE)),
        ..stop
    }
}

fn stop(container: &str, limit: Result<Duration, NoLinger>) -> Stop {
    Stop {
        container: container.to_owned(),
        limit_ms: limit.as_ref().ok().map(|limit| ms(*limit)),
        why: limit.err().map(|why| why.to_string()),
        ..Stop::default()
    }
}
