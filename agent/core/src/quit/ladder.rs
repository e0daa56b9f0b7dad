//! Showing the sidecars of a finished pod out: one ladder of steps for each,
//! and no step counts before the sidecar's process has ended.

mod progress;
mod reported;
mod timing;

use std::{collections::BTreeMap, time::Duration};

#[cfg(test)]
pub(crate) use self::timing::HEARS;
pub(crate) use self::timing::settle;
use self::{
    progress::{Phase, Progress},
    reported::Said,
};
use crate::{
    base::{id::ContainerId, time::Timestamp},
    decision::GaveUp,
    quit::outcome::Outcome,
    recipe::{Rung, step::Step},
    settings::config::Ladder,
};

/// Waits before the first run of a sidecar is asked to quit, the second, ...
/// A sidecar that comes back more often is left running.
const RUNS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(10),
];

/// How far the sidecars of one pod are.
#[derive(Debug, Default)]
pub(crate) struct Quit {
    /// What has been said, so that each thing is said once.
    pub(crate) said: Said,
    delay: Delay,
    sidecars: BTreeMap<String, Progress>,
}

/// The wait before the first request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Delay {
    /// It has not begun.
    #[default]
    Ahead,
    Until(Timestamp),
    Over,
}

/// One sidecar's run, and what is to be known to show it out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'plan> {
    pub(crate) name: &'plan str,
    pub(crate) run: &'plan ContainerId,
    /// When it was first seen to run.
    pub(crate) since: Option<Timestamp>,
    pub(crate) ladder: &'plan [Rung],
    pub(crate) timings: &'plan Ladder,
}

/// Whether a step may be taken, given what it does to the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Permission {
    Granted,
    /// It depends on something that is not known yet.
    Unknown,
    Denied(GaveUp),
}

/// What is to be done about a sidecar now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing before [`Quit::next_wake`] or another event.
    Nothing,
    /// Make an attempt.
    Attempt(Step),
    /// The permission for the next step has to be found out.
    Ask,
    /// A step was in vain; ask again.
    Failed {
        step: Step,
        outcome: Outcome,
        next: Option<Step>,
    },
    /// Nothing is left to try.
    GaveUp(GaveUp),
}

/// What an attempt's outcome means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Accepted; to be reported.
    Accepted(Rung),
    /// In vain; the next step, if any, follows.
    Failed { step: Step, next: Option<Step> },
    /// Try the same again, or wait for the end of the process.
    Wait,
}

impl Quit {
    /// Usher may not act on this pod any more. What it has done is not forgotten: a sidecar may take its time to end, and to
    /// answer.
    pub(crate) fn stop(&mut self) {
        let left = self.sidecars.values();
        let asked = left.filter(|progress| progress.accepted);
        let asked = asked.map(|progress| progress.run.clone());
        self.said.asked.extend(asked);
        self.sidecars
            .retain(|_name, progress| progress.phase == Phase::InFlight);
        self.delay = Delay::Ahead;
    }

    /// What is to be done changed: what was given up may be worth another try.
    pub(crate) fn reconsider(&mut self) {
        self.sidecars
            .retain(|_name, progress| progress.phase != Phase::GaveUp);
    }

    /// An app turned out to have failed: the first step that was left out may be taken now.
    pub(crate) fn take_up(&mut self, now: Timestamp) {
        for progress in self.sidecars.values_mut() {
            progress.take_up(now);
        }
    }

    /// Whether the wait of `delay` from `begin` on is not over.
    pub(crate) fn waits(&mut self, now: Timestamp, begin: Timestamp, delay: Duration) -> bool {
        if self.delay == Delay::Ahead {
            self.delay = Delay::Until(begin + delay);
        }
        if let Delay::Until(until) = self.delay
            && until <= now
        {
            self.delay = Delay::Over;
        }
        self.delay != Delay::Over
    }

    /// Starts over: the pod turned out not to be finished. What was reported of
    /// runs that ended stays reported.
    pub(crate) fn reset(&mut self) {
        self.stop();
        self.said.finished = false;
        self.said.left_alone = false;
        self.said.failed = false;
        self.said.would_quit.clear();
    }

    /// Says what is to be done about a living run of a sidecar. Ask again until
    /// it is [`Next::Nothing`] or [`Next::Ask`].
    pub(crate) fn next(
        &mut self,
        now: Timestamp,
        sidecar: Candidate<'_>,
        permission: impl Fn(&Rung) -> Permission,
    ) -> Next {
        let Candidate {
            name, run, ladder, ..
        } = sidecar;
        let progress = match self.sidecars.get_mut(name) {
            Some(progress) if progress.run == *run => progress,
            earlier => {
                let runs = earlier.map_or(0, |earlier| earlier.runs) + 1;
                let phase = match RUNS.get(runs - 1) {
                    Some(wait) => Phase::Waiting { until: now + *wait },
                    None => Phase::GaveUp,
                };
                // Said once, however often it comes back after that.
                let gave_up = runs == RUNS.len() + 1;
                let progress = Progress::new(run, ladder, runs, phase);
                self.sidecars.insert(name.to_owned(), progress);
                if gave_up {
                    return Next::GaveUp(GaveUp::ComesBack);
                }
                return self.next(now, sidecar, permission);
            }
        };
        progress.next(now, sidecar, permission)
    }

    /// Takes the outcome of an attempt. None when it is about a run that
    /// nothing is in flight for.
    pub(crate) fn attempted(
        &mut self,
        now: Timestamp,
        sidecar: Candidate<'_>,
        outcome: &Outcome,
    ) -> Option<Judgement> {
        let Candidate { name, run, .. } = sidecar;
        let progress = self
            .sidecars
            .get_mut(name)
            .filter(|progress| progress.run == *run && progress.phase == Phase::InFlight)?;
        progress.attempted(now, sidecar, outcome)
    }

    /// Whether this run has been asked to quit with success.
    pub(crate) fn asked(&self, name: &str, run: &ContainerId) -> bool {
        let progress = self.sidecars.get(name);
        self.said.asked.contains(run)
            || progress.is_some_and(|progress| progress.run == *run && progress.accepted)
    }

    /// Whether an attempt is being made with any sidecar.
    pub(crate) fn awaits_answers(&self) -> bool {
        let mut sidecars = self.sidecars.values();
        sidecars.any(|progress| progress.phase == Phase::InFlight)
    }

    /// Whether nothing is left to try with this run.
    pub(crate) fn gave_up(&self, name: &str, run: &ContainerId) -> bool {
        self.sidecars
            .get(name)
            .is_some_and(|progress| progress.run == *run && progress.phase == Phase::GaveUp)
    }

    /// When [`Self::next`] will have something to say although nothing
    /// happened.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        let sidecars = self.sidecars.values();
        let phases = sidecars.filter_map(|progress| progress.phase.due());
        let delay = match self.delay {
            Delay::Until(until) => Some(until),
            Delay::Ahead | Delay::Over => None,
        };
        phases.chain(delay).min()
    }

    /// Whether the answer to an attempt with this run is still to come.
    pub(crate) fn in_flight(&self, name: &str, run: &ContainerId) -> bool {
        self.sidecars
            .get(name)
            .is_some_and(|progress| progress.run == *run && progress.phase == Phase::InFlight)
    }

    /// The process of a run ended: no step is due for it any more.
    pub(crate) fn ended(&mut self, name: &str, run: &ContainerId) {
        if let Some(progress) = self.sidecars.get_mut(name)
            && progress.run == *run
        {
            progress.phase = Phase::GaveUp;
        }
    }
}
