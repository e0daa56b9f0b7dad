//! Showing sidecars out because a person wants it.
//!
//! Mode, opt-out and delay do not count; whether a step spoils the pod does, unless the person insists. The order is
//! about the runs that were there when it was given: one that is started again is not asked by it.

use super::{Finished, Need};
use crate::{
    decision::GaveUp,
    engine::{action::Action, request::FirstStep},
    plan::Sidecar,
    pod::{
        completion,
        state::{ByHand, Tracked},
    },
    quit::ladder::Permission,
    recipe::Purpose,
};

impl Finished<'_> {
    /// Goes on with an order; None when it is over.
    pub(crate) fn deal_by_hand(
        self,
        order: &ByHand,
        tracked: &mut Tracked,
        actions: &mut Vec<Action>,
    ) -> Option<Need> {
        self.report_ended(tracked, actions);
        let ends_anyway = self.spec.deleting || self.spec.terminal.is_some();
        let sidecars = self.plan.sidecars.iter();
        let unsettled: Vec<&Sidecar> = sidecars
            .filter(|sidecar| is_unsettled(order, tracked, &sidecar.name))
            .collect();
        if ends_anyway || unsettled.is_empty() {
            tracked.by_hand = None;
            return None;
        }
        let lives = |sidecar: &&Sidecar| {
            let newest = tracked.newest(&sidecar.name);
            newest.is_some_and(|(_id, run)| run.lives())
        };
        let left: Vec<&Sidecar> = unsettled.into_iter().filter(lives).collect();
        Some(self.take_turns(tracked, &left, actions))
    }

    /// The step that a sidecar is shown out with first, or why there is none.
    pub(crate) fn first_step(
        self,
        tracked: &Tracked,
        sidecar: &Sidecar,
    ) -> Result<FirstStep, GaveUp> {
        let failed = completion::has_failed(tracked, self.spec);
        let mut why_not = None;
        for rung in &sidecar.ladder {
            let note = match self.permission(sidecar, rung, failed) {
                Permission::Denied(why) => {
                    why_not.get_or_insert(why);
                    continue;
                }
                Permission::Unknown => Some(
                    "only if an app ended with another code than 0, which the kubelet is asked for"
                        .to_owned(),
                ),
                Permission::Granted => self.forced(sidecar, failed),
            };
            let drains = rung.purpose == Purpose::Drain;
            let note =
                note.or_else(|| drains.then(|| format!("it drains for {:?} first", rung.takes)));
            return Ok(FirstStep {
                container: sidecar.name.clone(),
                step: rung.step.to_string(),
                code: rung.code,
                note,
            });
        }
        Err(why_not.unwrap_or(GaveUp::StillRuns))
    }

    /// What a forced order does to the pod that would not be done else.
    fn forced(self, sidecar: &Sidecar, failed: Option<bool>) -> Option<String> {
        let kindly = Self {
            force: false,
            ..self
        };
        let rung = sidecar.ladder.first()?;
        match (self.force, kindly.permission(sidecar, rung, failed)) {
            (true, Permission::Denied(why)) => {
                let kind = crate::decision::Kind::GaveUp { reason: why };
                Some(format!("forced: {}", kind.reason()))
            }
            _ => None,
        }
    }
}

/// Whether something is still to be done about, or said of, the run of a sidecar that an order is about.
fn is_unsettled(order: &ByHand, tracked: &Tracked, name: &str) -> bool {
    let Some((id, run)) = tracked.newest(name) else {
        return false;
    };
    let said = tracked.quit.said.ended.contains(id);
    // What ended is given up as well; that it did has to be said.
    let given_up = run.lives() && tracked.quit.gave_up(name, id);
    order.runs.contains(id) && !said && !given_up
}
