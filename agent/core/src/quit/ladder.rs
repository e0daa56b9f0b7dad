//! The escalation ladder of each sidecar of a pod: one step after the other until the sidecar's process has exited.

mod escalation;
mod reported;
mod timing;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use self::escalation::Phase;
#[cfg(test)]
pub(crate) use self::timing::MIN_SIGNAL_AGE;
pub(crate) use self::{
    escalation::Escalation,
    reported::{Milestone, Reported},
    timing::settle,
};
use crate::{
    base::{id::ContainerId, time::Timestamp},
    decision::GaveUp,
    plan::Sidecar,
    pod::state::runs::Run,
    quit::outcome::Outcome,
    recipe::{LadderStep, step::Step},
    settings::config::Ladder,
};

/// The wait before the termination of the first run of a sidecar, the second, ... A sidecar that restarts more often
/// is left running.
const RUNS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(10),
];

/// The termination of one pod's sidecars.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quit {
    pub(crate) reported: Reported,
    /// An operator's request to terminate sidecars.
    pub(crate) operator: Option<OperatorQuit>,
    delay: Delay,
    sidecars: BTreeMap<String, Escalation>,
}

/// An operator's request to terminate sidecars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OperatorQuit {
    /// Every step is permitted, whatever it does to the pod.
    pub(crate) force: bool,
    /// The sidecar runs that existed when the request was made.
    pub(crate) runs: BTreeSet<ContainerId>,
}

/// The configured delay before the first step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Delay {
    #[default]
    Pending,
    Until(Timestamp),
    Over,
}

/// A run of a sidecar, and what its termination depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SidecarRun<'plan> {
    pub(crate) name: &'plan str,
    pub(crate) id: &'plan ContainerId,
    pub(crate) run: &'plan Run,
    pub(crate) ladder: &'plan [LadderStep],
    pub(crate) timings: &'plan Ladder,
}

impl<'plan> SidecarRun<'plan> {
    /// The newest run of a sidecar, which takes the steps of `ladder`.
    pub(crate) fn new(
        sidecar: &'plan Sidecar,
        (id, run): (&'plan ContainerId, &'plan Run),
        ladder: &'plan [LadderStep],
        timings: &'plan Ladder,
    ) -> Self {
        Self {
            name: &sidecar.name,
            id,
            run,
            ladder,
            timings,
        }
    }
}

/// The next action for a sidecar.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing before [`Quit::next_wake`] or another event.
    Nothing,
    Attempt(Step),
    /// The permission for the next step depends on an exit code that is not known.
    ExitCodesNeeded,
    /// A step failed; call again.
    Failed {
        step: Step,
        outcome: Outcome,
        next: Option<Step>,
    },
    /// No step is left.
    GaveUp(GaveUp),
}

/// What an attempt's outcome means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The step was accepted, which is reported.
    Accepted(LadderStep),
    /// The step failed; the next one, if any, follows.
    Failed { step: Step, next: Option<Step> },
    /// Repeat the step, or wait for the exit of the process.
    Wait,
}

impl Quit {
    /// usher may no longer act on this pod. Its earlier steps are remembered: a sidecar may exit or reply late.
    pub(crate) fn stop(&mut self) {
        for escalation in self.sidecars.values().filter(|sidecar| sidecar.accepted) {
            let run = escalation.run.clone();
            self.reported.insert(Milestone::Requested(run));
        }
        self.sidecars
            .retain(|_name, escalation| escalation.phase == Phase::InFlight);
        self.delay = Delay::Pending;
    }

    /// The plan or the request changed: sidecars that usher gave up on are tried again.
    pub(crate) fn reconsider(&mut self) {
        self.sidecars
            .retain(|_name, escalation| escalation.phase != Phase::GaveUp);
    }

    /// An app turned out to have failed: the first step that was skipped is permitted now.
    pub(crate) fn retry_skipped(&mut self, now: Timestamp) {
        for escalation in self.sidecars.values_mut() {
            escalation.retry_skipped(now);
        }
    }

    /// Whether the `delay` after `exit` has not passed.
    pub(crate) fn is_delayed(&mut self, now: Timestamp, exit: Timestamp, delay: Duration) -> bool {
        if self.delay == Delay::Pending {
            self.delay = Delay::Until(exit + delay);
        }
        if let Delay::Until(until) = self.delay
            && until <= now
        {
            self.delay = Delay::Over;
        }
        self.delay != Delay::Over
    }

    /// The pod turned out to be unfinished: starts over, but keeps the reports about exited runs.
    pub(crate) fn reset(&mut self) {
        self.stop();
        self.reported.reset();
    }

    /// The escalation of a living run. The flag is set once, when the sidecar has restarted too often to be terminated
    /// again.
    pub(crate) fn escalation(
        &mut self,
        now: Timestamp,
        sidecar: SidecarRun<'_>,
    ) -> (&mut Escalation, bool) {
        let SidecarRun {
            name, id, ladder, ..
        } = sidecar;
        let earlier = self.sidecars.get(name);
        let is_known = earlier.is_some_and(|earlier| earlier.run == *id);
        let runs = earlier.map_or(0, |earlier| earlier.runs) + 1;
        let first = || {
            let phase = match RUNS.get(runs - 1) {
                Some(wait) => Phase::Waiting { until: now + *wait },
                None => Phase::GaveUp,
            };
            Escalation::new(id, ladder, runs, phase)
        };
        let restarts_too_often = !is_known && runs == RUNS.len() + 1;
        let escalation = self.sidecars.entry(name.to_owned()).or_insert_with(first);
        if !is_known {
            *escalation = first();
        }
        (escalation, restarts_too_often)
    }

    /// Applies the outcome of an attempt. None when no attempt with this run is in flight.
    pub(crate) fn attempted(
        &mut self,
        now: Timestamp,
        sidecar: SidecarRun<'_>,
        outcome: &Outcome,
    ) -> Option<Judgement> {
        let SidecarRun { name, id, .. } = sidecar;
        let escalation = self
            .sidecars
            .get_mut(name)
            .filter(|escalation| escalation.run == *id && escalation.phase == Phase::InFlight)?;
        escalation.attempted(now, sidecar, outcome)
    }

    /// The reply to an attempt with a run that is no longer the newest one of a sidecar. The number of its runs is kept.
    pub(crate) fn answered_late(&mut self, run: &ContainerId) {
        for escalation in self.sidecars.values_mut() {
            if escalation.run == *run && escalation.phase == Phase::InFlight {
                escalation.phase = Phase::GaveUp;
            }
        }
    }

    /// Whether usher terminated this run, and the run accepted it.
    pub(crate) fn is_requested(&self, name: &str, run: &ContainerId) -> bool {
        self.reported.contains(&Milestone::Requested(run.clone()))
            || self
                .escalation_of(name, run)
                .is_some_and(|escalation| escalation.accepted)
    }

    /// Whether an attempt with any sidecar is in flight.
    pub(crate) fn awaits_answers(&self) -> bool {
        self.sidecars
            .values()
            .any(|escalation| escalation.phase == Phase::InFlight)
    }

    /// Whether no step is left to try with this run.
    pub(crate) fn gave_up(&self, name: &str, run: &ContainerId) -> bool {
        self.escalation_of(name, run)
            .is_some_and(|escalation| escalation.phase == Phase::GaveUp)
    }

    /// The runs with which no step is left to try, or that exited.
    pub(crate) fn runs_without_a_step(&self) -> impl Iterator<Item = &ContainerId> {
        let sidecars = self.sidecars.values();
        sidecars
            .filter(|escalation| escalation.phase == Phase::GaveUp)
            .map(|escalation| &escalation.run)
    }

    /// When the next step is due without another event. A time that has passed belongs to a sidecar that waits for another
    /// one, or has ended.
    pub(crate) fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let delay = match self.delay {
            Delay::Until(until) => Some(until),
            Delay::Pending | Delay::Over => None,
        };
        self.sidecars
            .values()
            .filter_map(|escalation| escalation.phase.due())
            .chain(delay)
            .filter(|at| *at > now)
            .min()
    }

    /// Whether the reply to an attempt with this run is pending.
    pub(crate) fn in_flight(&self, name: &str, run: &ContainerId) -> bool {
        self.escalation_of(name, run)
            .is_some_and(|escalation| escalation.phase == Phase::InFlight)
    }

    /// The process of a run exited: no step is due for it.
    pub(crate) fn ended(&mut self, name: &str, run: &ContainerId) {
        if let Some(escalation) = self.sidecars.get_mut(name)
            && escalation.run == *run
        {
            escalation.phase = Phase::GaveUp;
        }
    }

    fn escalation_of(&self, name: &str, run: &ContainerId) -> Option<&Escalation> {
        self.sidecars
            .get(name)
            .filter(|escalation| escalation.run == *run)
    }
}
