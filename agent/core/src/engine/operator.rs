//! Orders that people give by hand.

mod hold;

use std::collections::BTreeSet;

use super::Engine;
use crate::{
    base::{
        id::{ContainerId, PodUid},
        time::Timestamp,
    },
    decision::{Kind, NotApplicable, SkipReason, WaitReason},
    engine::{
        action::Action,
        request::{Answer, By, Done, Order, Refused, Taken, Wish},
    },
    plan::{Plan, Sidecar},
    pod::{
        completion::{self, Progress},
        spec::Pod,
        state::{ByHand, Tracked},
    },
    quit::{Finished, report},
    settings::mode::Mode,
};

/// A pod of which enough is known to judge an order.
type Known = (std::sync::Arc<Pod>, std::sync::Arc<Plan>);

impl Engine {
    /// Judges an order, and follows it.
    pub(super) fn ordered(&mut self, now: Timestamp, order: &Order, actions: &mut Vec<Action>) {
        let answer = match self.known(&order.pod) {
            Err(refused) => Answer::Refused(refused),
            Ok(known) => match order.wish {
                Wish::Quit { force } => self.quit_by_hand(now, order, &known, force, actions),
                Wish::Hold => self.hold_by_hand(now, order, &known, actions),
                Wish::Release => self.release_by_hand(now, order, &known, actions),
                Wish::Mend => self.mend_by_hand(now, order, &known, actions),
            },
        };
        actions.push(Action::Reply(answer));
    }

    fn known(&self, uid: &PodUid) -> Result<Known, Refused> {
        let tracked = self.pods.get(uid).filter(|pod| pod.present);
        let tracked = tracked.ok_or(Refused::NoPod)?;
        let unlisted = || Refused::Unknown(WaitReason::Unlisted);
        let spec = tracked.spec.clone().filter(|_| self.walked);
        let spec = spec.ok_or_else(unlisted)?;
        let plan = tracked.plan.clone().filter(|_| !tracked.plan_is_old);
        let plan = plan.ok_or(Refused::Unknown(WaitReason::NamespaceUnknown))?;
        Ok((spec, plan))
    }

    fn quit_by_hand(
        &mut self,
        now: Timestamp,
        order: &Order,
        (spec, plan): &Known,
        force: bool,
        actions: &mut Vec<Action>,
    ) -> Answer {
        let mode = self.modes.quit;
        let timings = std::sync::Arc::clone(&self.config);
        let tracked = self.pod(&order.pod);
        let mut despite = match may_quit(tracked, spec, plan, force) {
            Ok(despite) => despite,
            Err(refused) => return Answer::Refused(refused),
        };
        if mode != Mode::Enforce {
            despite.push(format!("the node's mode is {mode}"));
        }
        despite.extend(set_aside(plan));
        let finished = Finished {
            spec,
            plan,
            mode,
            timings: &timings.ladder,
            // Which step is the first does not depend on it.
            at: None,
            now,
            force,
        };
        let mut living: Vec<(&Sidecar, ContainerId)> = plan
            .sidecars
            .iter()
            .filter_map(|sidecar| {
                let (id, run) = tracked.newest(&sidecar.name)?;
                run.lives().then(|| (sidecar, id.clone()))
            })
            .collect();
        if living.is_empty() {
            return Answer::Nothing("none of its sidecars runs".to_owned());
        }
        living.sort_by_key(|(sidecar, _id)| sidecar.order);
        let mut taken = Taken {
            despite,
            ..Taken::default()
        };
        let mut refused = None;
        let mut runs = BTreeSet::new();
        for (sidecar, id) in living {
            match finished.first_step(tracked, sidecar) {
                Ok(step) => {
                    taken.steps.push(step);
                    runs.insert(id);
                }
                Err(why) => {
                    let container = sidecar.name.clone();
                    refused.get_or_insert(Refused::Spoils { container, why });
                }
            }
        }
        if let Some(refused) = &refused {
            if taken.steps.is_empty() {
                return Answer::Refused(refused.clone());
            }
            taken.despite.push(format!("it stays: {refused}"));
        }
        let steps = taken.steps.iter();
        let steps = steps.map(|step| format!("{} by {}", step.container, step.step));
        let steps: Vec<String> = steps.collect();
        taken.says = format!("shown out: {}", steps.join(", "));
        if order.dry_run {
            return Answer::Taken(taken);
        }
        note(tracked, spec, order, &taken, actions);
        let earlier = tracked.by_hand.take();
        let force = force || earlier.as_ref().is_some_and(|earlier| earlier.force);
        runs.extend(earlier.into_iter().flat_map(|earlier| earlier.runs));
        tracked.by_hand = Some(ByHand { force, runs });
        tracked.quit.reconsider();
        self.review_pod(now, &order.pod, actions);
        Answer::Taken(taken)
    }
}

/// Whether a pod's sidecars may be shown out; what a person who insists sets aside.
fn may_quit(
    tracked: &Tracked,
    spec: &Pod,
    plan: &Plan,
    force: bool,
) -> Result<Vec<String>, Refused> {
    if spec.deleting {
        return Err(Refused::Skipped(SkipReason::Deleting));
    }
    if let Some(reason) = spec.terminal.clone() {
        return Err(Refused::Skipped(SkipReason::Terminal { reason }));
    }
    let mut despite = Vec::new();
    let mut unless_forced = |refused: Refused| {
        if !(force && refused.yields_to_force()) {
            return Err(refused);
        }
        despite.push(refused.to_string());
        Ok(())
    };
    if let Some(why) = &plan.not_ours {
        unless_forced(Refused::NotApplicable(why.clone()))?;
    }
    match completion::progress(tracked, spec, plan) {
        Progress::Finished { .. } => {}
        Progress::Hidden if plan.not_ours == Some(NotApplicable::NoApp) => {}
        Progress::Hidden => return Err(Refused::Hidden),
        Progress::Unfinished(why) | Progress::Unseen(why) | Progress::AskKubelet(why) => {
            unless_forced(Refused::AppRuns(why))?;
        }
    }
    Ok(despite)
}

/// What a pod or its Namespace asks for that does not count by hand.
fn set_aside(plan: &Plan) -> Vec<String> {
    let mut aside = Vec::new();
    if !plan.tuning.quit {
        let kind = Kind::Skipped {
            reason: SkipReason::OptedOut,
        };
        aside.push(kind.reason());
    }
    if !plan.tuning.quit_delay.is_zero() {
        let delay = plan.tuning.quit_delay;
        aside.push(Kind::Waiting(WaitReason::QuitDelay { delay }).reason());
    }
    aside
}

/// Writes an order down that was taken.
pub(super) fn note(
    tracked: &Tracked,
    spec: &Pod,
    order: &Order,
    taken: &Taken,
    actions: &mut Vec<Action>,
) {
    let despite = match taken.despite.as_slice() {
        [] => String::new(),
        aside => format!("; although {}", aside.join("; ")),
    };
    let says = format!("{}{despite}", taken.says);
    let (wish, by): (Wish, By) = (order.wish, order.by);
    let kind = Kind::OperatorRequest(Done { wish, by, says });
    actions.push(report(tracked, Some(spec), None, kind, None));
}
