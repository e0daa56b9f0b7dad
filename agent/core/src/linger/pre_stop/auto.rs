//! Apps with a pre-stop time of `auto`: their traffic is sampled while their stop signals wait.

use super::{
    quiet::{Next, Quiet},
    traffic::Sample,
};
use crate::{
    base::{id::ContainerId, time::Timestamp},
    engine::action::Action,
    linger::{
        Unmeasured,
        review::LingerReview,
        state::{Held, Lingers, Progress},
    },
    pod::spec::Pod,
};

impl LingerReview<'_> {
    /// Requests a sample of the traffic, or orders the release. Returns the time of the next review.
    pub(in crate::linger) fn review_traffic(
        self,
        id: &ContainerId,
        held: &mut Held,
        actions: &mut Vec<Action>,
    ) -> Option<Timestamp> {
        let view = self.view?;
        let spec = self.spec.filter(|spec| spec.deleting)?;
        self.candidate(view, id).filter(|app| app.is_auto)?;
        let since = held.since;
        let quiet = held.quiet.get_or_insert_with(|| Quiet::new(since));
        if spec.host_network {
            quiet.give_up(Unmeasured::HostNetwork);
        }
        match quiet.next(self.now) {
            Next::Sample => {
                quiet.requested(self.now);
                actions.push(self.sample(view, id));
                None
            }
            Next::WaitUntil(at) => Some(at),
            Next::WaitForSample => None,
            Next::Release(why) => {
                held.why = Some(why);
                None
            }
        }
    }

    /// The traffic of a pod was sampled, or could not be.
    pub(crate) fn sampled(
        self,
        id: &ContainerId,
        sample: Result<Sample, String>,
        lingers: &mut Lingers,
        actions: &mut Vec<Action>,
    ) {
        let Some(Progress::Held(held)) = lingers.runs.get_mut(id) else {
            return self.observed_sample(id, sample.ok(), lingers, actions);
        };
        let Some(quiet) = &mut held.quiet else {
            return;
        };
        // The kubelet probes a container once a second at most.
        let probed = |spec: &Pod| (spec.containers.len() + spec.native_sidecars.len()) as u64;
        match sample {
            Ok(sample) => quiet.sampled(self.now, sample, self.spec.map_or(0, probed)),
            Err(_logged) => quiet.give_up(Unmeasured::Failed),
        }
    }
}
