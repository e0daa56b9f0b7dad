//! What is known of a pod whose connections may wait.

use std::{collections::BTreeSet, time::Duration};

use super::lifecycle::LEASE;
use crate::{
    base::id::ContainerId,
    plan::Plan,
    pod::{
        completion::{self, Progress},
        exit_status::ExitStatus,
        restart_policy::{self, Verdict},
        spec::Pod,
        state::{RunState, Tracked},
    },
    settings::config::OnDeadline,
};

/// What the kubelet says of a pod, and what follows from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'engine> {
    pub(crate) spec: &'engine Pod,
    pub(crate) plan: &'engine Plan,
}

impl Known<'_> {
    pub(super) fn deadline(self) -> Duration {
        self.plan.tuning.hold_deadline
    }

    /// How much longer than the deadline the kernel keeps doors shut by itself.
    pub(super) fn lease(self) -> Duration {
        match self.plan.tuning.on_deadline {
            OnDeadline::Open => Duration::ZERO,
            OnDeadline::Closed => LEASE,
        }
    }

    /// Whether a container that may connect has begun in this sandbox, or runs
    /// in whichever.
    pub(crate) fn an_app_has_begun(self, begun: u64, tracked: &Tracked) -> bool {
        let doors = self.plan.doors();
        let mut regular = self.spec.containers.iter();
        regular.any(|one| {
            let waited_for = doors.iter().any(|door| door.sidecar == one.name);
            let newest = tracked.newest(&one.name);
            let here = newest.is_some_and(|(_id, run)| run.order >= begun || run.lives());
            !waited_for && here
        })
    }

    pub(crate) fn is_ending(self, tracked: &Tracked) -> bool {
        let Self { spec, plan } = self;
        let finished = || {
            matches!(
                completion::progress(tracked, spec, plan),
                Progress::Finished { .. }
            )
        };
        spec.deleting || spec.terminal.is_some() || finished()
    }

    /// Whether a regular container has begun.
    pub(super) fn app_has_begun(self, tracked: &Tracked) -> bool {
        let mut regular = self.spec.containers.iter();
        regular.any(|one| has_begun(&one.name, 0, tracked))
    }

    /// Whether every init container of this sandbox has ended, so that regular
    /// ones come next.
    pub(super) fn inits_are_over(self, begun: u64, tracked: &Tracked) -> bool {
        let inits = &self.spec.init_containers;
        let mut regular = self.spec.containers.iter();
        if self.init_lives(tracked) {
            return false;
        }
        if inits.is_empty() || regular.any(|one| has_begun(&one.name, begun, tracked)) {
            return true;
        }
        let named = inits.iter().filter(|name| {
            let newest = tracked.newest(name);
            newest.is_some_and(|(_id, run)| run.order >= begun && run.ended_well())
        });
        // Some live too short a time to be told apart.
        let nameless = tracked.nameless_good_ends(begun);
        named.count() + nameless >= inits.len()
    }

    pub(super) fn init_lives(self, tracked: &Tracked) -> bool {
        let mut inits = self.spec.init_containers.iter();
        inits.any(|name| {
            let newest = tracked.newest(name);
            newest.is_some_and(|(_id, run)| run.lives())
        })
    }

    /// Whether a sidecar ended and nothing starts it again.
    pub(super) fn ended_for_good(self, name: &str, tracked: &Tracked) -> bool {
        let (Some(container), Some((id, run))) = (self.spec.container(name), tracked.newest(name))
        else {
            return false;
        };
        let RunState::Exited { status, .. } = run.state else {
            return false;
        };
        if completion::may_not_have_begun(container, id, run) {
            return false;
        }
        let code = status.map(ExitStatus::kubernetes_code);
        let code = code.or_else(|| container.reported_code(id));
        let policy = self.spec.policy_of(container);
        restart_policy::judge(policy, &container.restart_rules, code) == Verdict::EndedForGood
    }
}

fn has_begun(name: &str, begun: u64, tracked: &Tracked) -> bool {
    let newest = tracked.newest(name);
    newest.is_some_and(|(_id, run)| run.order >= begun)
}

/// Whether a run of a sidecar that was seen to live has ended.
pub(super) fn sidecar_ended(
    known: Known<'_>,
    runs: &mut BTreeSet<ContainerId>,
    tracked: &Tracked,
) -> bool {
    for door in known.plan.doors() {
        let Some((id, run)) = tracked.newest(&door.sidecar) else {
            continue;
        };
        if run.lives() {
            runs.insert(id.clone());
        } else if runs.contains(id) {
            return true;
        }
    }
    false
}
