//! The order of several sidecars of a pod: helpers and log shippers receive their stop signals before the mesh proxy, which
//! they may need until they end.

use super::review::LingerReview;
use crate::{base::id::ContainerId, pod::view::PodView};

impl LingerReview<'_> {
    /// Whether a sidecar of an earlier stage still runs. It has its stop signal already.
    pub(super) fn is_needed(self, view: &PodView, id: &ContainerId) -> bool {
        let Some(sidecar) = self.sidecar(view, id) else {
            return false;
        };
        let mut others = view.plan.sidecars.iter();
        others.any(|other| other.order < sidecar.order && self.runs.is_living(&other.name))
    }
}
