//! Which stop signals usher would hold.

use super::ms;
use crate::{
    admin::{Acts, Linger, Stop},
    linger,
    pod::view::PodView,
    settings::{mode::Mode, overrides::LingerKind},
};

/// None where the pod does not request it.
pub(super) fn forecast(view: &PodView) -> Option<Linger> {
    let plan = &view.plan;
    if matches!(plan.tuning.linger, LingerKind::Unset | LingerKind::No) {
        return None;
    }
    let sidecars = plan.sidecars.iter().map(|sidecar| {
        let limit = linger::limit(&view.spec, plan, sidecar);
        Stop {
            container: sidecar.name.clone(),
            limit_ms: limit.as_ref().ok().map(|limit| ms(*limit)),
            why: limit.err().map(|why| why.to_string()),
        }
    });
    let sidecars: Vec<Stop> = sidecars.collect();
    let any_waits = sidecars.iter().any(|stop| stop.limit_ms.is_some());
    Some(Linger {
        mode: view.modes.linger.to_string(),
        acts: if any_waits && view.modes.linger == Mode::Enforce {
            Acts::Later
        } else {
            Acts::No
        },
        sidecars,
    })
}
