//! Sidecars that received their stop signal late: the runtime counts the grace period from there, so the end of the pod's
//! own is enforced here.

use std::time::Duration;

use super::{
    review::LingerReview,
    state::{Held, Lingers, Progress, ROUNDING},
};
use crate::{
    base::{id::ContainerKey, time::Timestamp},
    decision::Kind,
    engine::action::Action,
    recipe::step::{Signal, Step},
};

/// The least time that the kubelet leaves between the stop signal and SIGKILL
/// ([minimumGracePeriodInSeconds](https://github.com/kubernetes/kubernetes/blob/v1.33.0/pkg/kubelet/kuberuntime/kuberuntime_container.go)).
const LEAST: Duration = Duration::from_secs(2);

impl LingerReview<'_> {
    /// Kills the sidecars that ignore their stop signal until the end of the pod's grace period.
    pub(super) fn review_late(
        self,
        lingers: &mut Lingers,
        actions: &mut Vec<Action>,
    ) -> Option<Timestamp> {
        let mut wake = None;
        for (id, progress) in &mut lingers.runs {
            let Progress::Late { kill_at } = *progress else {
                continue;
            };
            let Some(run) = self.runs.get(id).filter(|run| run.lives()) else {
                *progress = Progress::Over;
                continue;
            };
            if kill_at > self.now {
                wake = wake.into_iter().chain([kill_at]).min();
                continue;
            }
            *progress = Progress::Over;
            actions.push(Action::Attempt {
                key: ContainerKey {
                    pod: self.uid.clone(),
                    id: id.clone(),
                },
                step: Step::signal(Signal::Kill),
                timeout: Duration::ZERO,
            });
            let name = self.runs.name_of(id, run);
            let kind = Kind::LingerKilled;
            actions.push(Action::report(self.uid, self.spec, name, kind, None));
        }
        wake
    }

    /// What remains of a run whose stop signal was released, in a deletion with this grace period at first.
    pub(super) fn released(self, held: &Held, grace: Option<Duration>) -> Progress {
        // The runtime's own timer is right for a signal that waited no longer.
        let is_late = self.now.since(held.since) > ROUNDING;
        match self.spec.filter(|spec| is_late && spec.deleting) {
            Some(spec) => {
                // The kubelet subtracts the time of a preStop hook. When it began with the hook is not known: it may have
                // noticed the deletion late. The runtime's timer has that time, and kills first where it ends before.
                let end = held.since + grace.unwrap_or(spec.grace) + ROUNDING;
                // A deadline that is over does not take the time to react.
                let kill_at = end.max(self.now + LEAST);
                Progress::Late { kill_at }
            }
            None => Progress::Over,
        }
    }
}
