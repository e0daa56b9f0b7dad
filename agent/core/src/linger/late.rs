//! Sidecars that received their stop signal late: the runtime counts the grace period from there, so the end of the pod's
//! own is enforced here.

use std::time::Duration;

use super::{
    review::LingerReview,
    state::{Held, Lingers, Progress},
};
use crate::{
    base::{
        id::{ContainerId, ContainerKey},
        time::Timestamp,
    },
    decision::Kind,
    engine::action::Action,
    pod::spec::{Container, Pod},
    recipe::step::{Signal, Step},
};

/// The deletion's time has no fractions of a second. The runtime's own timer is right for a signal that waited no longer.
const ROUNDING: Duration = Duration::from_secs(1);
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

    /// What remains of a run whose stop signal was released.
    pub(super) fn released(self, id: &ContainerId, held: &Held) -> Progress {
        let is_late = self.now.since(held.since) > ROUNDING;
        match self.spec.filter(|spec| is_late && spec.deleting) {
            Some(spec) => {
                let end = held.since + self.grace(id, held, spec) + ROUNDING;
                // A deadline that is over, or that was brought forward, does not take the time to react.
                let kill_at = end.max(self.now + LEAST);
                Progress::Late { kill_at }
            }
            None => Progress::Over,
        }
    }

    /// The time that the kubelet gives a run from its stop signal on: the whole grace period, minus the time of its preStop hook,
    /// which follows only from the time of the deletion.
    fn grace(self, id: &ContainerId, held: &Held, spec: &Pod) -> Duration {
        let name = self.name(id);
        let has_hook = |container: &Container| {
            name.is_none_or(|name| name == container.name) && container.has_pre_stop
        };
        if spec.containers.iter().any(has_hook) {
            held.grace_left(spec)
        } else {
            spec.grace
        }
    }
}
