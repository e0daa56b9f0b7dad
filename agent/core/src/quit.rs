//! Showing the sidecars of a finished pod out: one ladder of steps for each,
//! and no step counts before the sidecar's process has ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{decision::GaveUp, event::Outcome, id::ContainerId, step::Step, time::Timestamp};

/// How long one attempt may take.
pub(crate) const ATTEMPT: Duration = Duration::from_secs(1);
/// How long an accepted request has to end the sidecar before the next step.
const SETTLE: Duration = Duration::from_secs(2);
/// The same for a signal: Istio drains for 5 s by default, others for longer.
const SETTLE_SIGNAL: Duration = Duration::from_secs(30);
/// How long "nobody listens" is taken for "not yet".
const CONNECT_WINDOW: Duration = Duration::from_secs(10);
/// First wait after "nobody listens"; doubles each time.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// Longest wait after "nobody listens".
const LAST_RETRY: Duration = Duration::from_millis(250);
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
    sidecars: BTreeMap<String, Progress>,
}

#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) finished: bool,
    pub(crate) left_alone: bool,
    pub(crate) would_quit: BTreeSet<ContainerId>,
    pub(crate) ended: BTreeSet<ContainerId>,
    pub(crate) prepared: BTreeSet<ContainerId>,
}

#[derive(Debug)]
struct Progress {
    run: ContainerId,
    /// How many runs of it have been asked, this one included.
    runs: usize,
    rung: usize,
    retries: u32,
    /// First attempt of this rung.
    rung_since: Option<Timestamp>,
    phase: Phase,
    accepted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The next attempt is due.
    Waiting {
        until: Timestamp,
    },
    /// An attempt is being made.
    InFlight,
    /// A step was accepted; the sidecar has until then to end.
    Settling {
        until: Timestamp,
        outcome: Outcome,
    },
    GaveUp,
}

/// What is to be done about a sidecar now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing before [`Quit::next_wake`] or another event.
    Nothing,
    /// Make an attempt.
    Attempt(Step),
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
    Accepted(Step),
    /// In vain; the next step, if any, follows.
    Failed { step: Step, next: Option<Step> },
    /// Try the same again, or wait for the end of the process.
    Wait,
}

impl Quit {
    /// Usher may not act on this pod any more.
    pub(crate) fn stop(&mut self) {
        self.sidecars.clear();
    }

    /// Starts over: the pod turned out not to be finished. What was reported of
    /// runs that ended stays reported.
    pub(crate) fn reset(&mut self) {
        self.stop();
        self.said.finished = false;
        self.said.left_alone = false;
        self.said.would_quit.clear();
    }

    /// Says what is to be done about the living run `run` of the sidecar
    /// `name`. Ask again until it is [`Next::Nothing`].
    pub(crate) fn next(
        &mut self,
        now: Timestamp,
        name: &str,
        run: &ContainerId,
        ladder: &[Step],
    ) -> Next {
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
                self.sidecars
                    .insert(name.to_owned(), Progress::new(run, runs, phase));
                if gave_up {
                    return Next::GaveUp(GaveUp::ComesBack);
                }
                return self.next(now, name, run, ladder);
            }
        };
        match progress.phase.clone() {
            Phase::Waiting { until } if until <= now => match ladder.get(progress.rung) {
                Some(step) => {
                    progress.phase = Phase::InFlight;
                    progress.rung_since.get_or_insert(now);
                    Next::Attempt(*step)
                }
                None => {
                    progress.phase = Phase::GaveUp;
                    Next::GaveUp(GaveUp::StillRuns)
                }
            },
            Phase::Settling { until, outcome } if until <= now => {
                let Some(step) = ladder.get(progress.rung).copied() else {
                    progress.phase = Phase::GaveUp;
                    return Next::GaveUp(GaveUp::StillRuns);
                };
                let next = progress.climb(now, ladder);
                Next::Failed {
                    step,
                    outcome,
                    next,
                }
            }
            _ => Next::Nothing,
        }
    }

    /// Takes the outcome of an attempt. None when it is about a run that
    /// nothing is in flight for.
    pub(crate) fn attempted(
        &mut self,
        now: Timestamp,
        name: &str,
        run: &ContainerId,
        ladder: &[Step],
        outcome: &Outcome,
    ) -> Option<Judgement> {
        let progress = self
            .sidecars
            .get_mut(name)
            .filter(|progress| progress.run == *run && progress.phase == Phase::InFlight)?;
        let step = *ladder.get(progress.rung)?;
        let settle = match step {
            Step::Post { .. } => SETTLE,
            Step::Signal(_) => SETTLE_SIGNAL,
        };
        let since = progress.rung_since.unwrap_or(now);
        Some(match outcome {
            Outcome::Accepted | Outcome::NoReply | Outcome::Signalled => {
                progress.accepted = true;
                progress.phase = Phase::Settling {
                    until: now + settle,
                    outcome: outcome.clone(),
                };
                Judgement::Accepted(step)
            }
            Outcome::Gone => {
                // The event of its end is on its way.
                progress.phase = Phase::Settling {
                    until: now + SETTLE,
                    outcome: outcome.clone(),
                };
                Judgement::Wait
            }
            Outcome::Refused if now.since(since) < CONNECT_WINDOW => {
                let wait = FIRST_RETRY.saturating_mul(1 << progress.retries.min(16));
                progress.retries += 1;
                progress.phase = Phase::Waiting {
                    until: now + wait.min(LAST_RETRY),
                };
                Judgement::Wait
            }
            Outcome::Refused | Outcome::Rejected(_) | Outcome::TimedOut | Outcome::Failed(_) => {
                Judgement::Failed {
                    step,
                    next: progress.climb(now, ladder),
                }
            }
        })
    }

    /// Whether this run has been asked to quit with success.
    pub(crate) fn asked(&self, name: &str, run: &ContainerId) -> bool {
        self.sidecars
            .get(name)
            .is_some_and(|progress| progress.run == *run && progress.accepted)
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
        self.sidecars
            .values()
            .filter_map(|progress| match progress.phase {
                Phase::Waiting { until } | Phase::Settling { until, .. } => Some(until),
                Phase::InFlight | Phase::GaveUp => None,
            })
            .min()
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

impl Progress {
    fn new(run: &ContainerId, runs: usize, phase: Phase) -> Self {
        Self {
            run: run.clone(),
            runs,
            rung: 0,
            retries: 0,
            rung_since: None,
            phase,
            accepted: false,
        }
    }

    /// Goes on to the next step, if there is one.
    fn climb(&mut self, now: Timestamp, ladder: &[Step]) -> Option<Step> {
        self.rung += 1;
        self.retries = 0;
        self.rung_since = None;
        self.phase = Phase::Waiting { until: now };
        ladder.get(self.rung).copied()
    }
}
