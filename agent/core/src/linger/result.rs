//! The results that the holder reports of stop signals.

use std::collections::BTreeSet;

use super::{
    Released, StopResult,
    report::{released, unsupported},
    review::LingerReview,
    state::{Held, Lingers, Progress},
};
use crate::{base::id::ContainerId, decision::Kind, engine::action::Action, settings::mode::Mode};

impl LingerReview<'_> {
    /// Applies what the holder reports about one run. Returns whether the kubelet's list is needed.
    pub(crate) fn reported(
        self,
        id: &ContainerId,
        name: &str,
        result: StopResult,
        lingers: &mut Lingers,
        actions: &mut Vec<Action>,
    ) -> bool {
        let before = lingers.runs.get(id).copied();
        let is_app = match before {
            Some(Progress::Held(held)) => held.is_app,
            _ => lingers
                .wanted
                .iter()
                .any(|stop| stop.id == *id && stop.is_app),
        };
        let mut report = |kind| {
            actions.push(Action::report(self.uid, self.spec, Some(name), kind, None));
        };
        match result {
            StopResult::Observed => return self.stop_observed(id, is_app, lingers),
            // The runtime writes its state after the hooks of the container, which may take longer than expected.
            StopResult::Unsupported(_) if !self.may_have_executed(id) => {
                lingers.early.insert(id.clone());
            }
            // What is not counted is not reported.
            StopResult::Unsupported(_) if self.mode == Mode::Observe => {}
            StopResult::Unsupported(reason) => {
                lingers.runs.insert(id.clone(), Progress::Over);
                if lingers.reported.insert(name.to_owned()) {
                    report(unsupported(is_app, reason));
                }
            }
            StopResult::Held { at } => {
                let is_listed = self.spec.is_some_and(|spec| spec.deleting);
                let wanted = lingers.wanted.iter().find(|stop| stop.id == *id);
                lingers.runs.insert(
                    id.clone(),
                    Progress::Held(Held {
                        since: self.now,
                        at,
                        is_listed,
                        is_app,
                        apps_run: true,
                        setting: wanted.and_then(|stop| stop.setting),
                        quiet: None,
                        why: wanted.is_none().then_some(Released::NotWanted),
                        is_ordered: false,
                    }),
                );
                report(if is_app {
                    Kind::PreStopHeld
                } else {
                    Kind::LingerHeld
                });
                return !is_listed;
            }
            StopResult::Released { held, at_limit } => {
                let (ordered, setting, after) = match before {
                    Some(Progress::Held(mut before)) => {
                        // The report of its begin may have waited for this agent.
                        before.since = before.since.min(self.now - held);
                        // The annotation may have changed since. After the sidecar's end its stop signal is no longer wanted.
                        let wanted = lingers.wanted.iter().find(|stop| stop.id == *id);
                        let setting = wanted.map_or(before.setting, |stop| stop.setting);
                        (before.why, setting, self.released(&before, lingers.grace))
                    }
                    _ => (None, None, Progress::Over),
                };
                let early = match before {
                    Some(Progress::Held(held)) => held.early(Released::Deadline),
                    _ => Released::Deadline,
                };
                let why = match (at_limit, ordered) {
                    // The holder's limit came while the order was under way.
                    (true, Some(why @ (Released::AppsEnded | Released::Quiet))) => why,
                    (true, None | Some(Released::EarlierStage))
                        if early == Released::EarlierStage =>
                    {
                        early
                    }
                    (true, _) if setting.is_some_and(|setting| held >= setting) => Released::Limit,
                    // Its limit was the rest of the grace period.
                    (true, _) => Released::Deadline,
                    (false, Some(why)) => why,
                    (false, None) => Released::NotWanted,
                };
                if why == Released::NotDeleted {
                    // Its next stop signal may be that of a deletion.
                    lingers.runs.remove(id);
                } else {
                    lingers.runs.insert(id.clone(), after);
                }
                report(released(is_app, why, held));
            }
            StopResult::Lost => {
                if let Some(Progress::Held(held)) = before {
                    let after = self.released(&held, lingers.grace);
                    lingers.runs.insert(id.clone(), after);
                    let time = self.now.since(held.since);
                    let why = match held.early(Released::HolderEnded) {
                        Released::EarlierStage => held.why.unwrap_or(Released::EarlierStage),
                        why => why,
                    };
                    report(released(is_app, why, time));
                }
            }
        }
        self.forget_ended(lingers);
        false
    }

    fn may_have_executed(self, id: &ContainerId) -> bool {
        self.runs.get(id).is_none_or(|run| run.executed)
    }

    pub(super) fn forget_ended(self, lingers: &mut Lingers) {
        let known: BTreeSet<&ContainerId> = self.runs.iter().map(|(id, _run)| id).collect();
        lingers.drains.retain(|id, _request| known.contains(id));
        lingers.early.retain(|id| known.contains(id));
        lingers
            .runs
            .retain(|id, progress| matches!(progress, Progress::Held(_)) || known.contains(id));
    }
}
