//! Showing the sidecars of a finished pod out: one ladder of steps for each,
//! and no step counts before the sidecar's process has ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    config::Ladder,
    decision::GaveUp,
    event::Outcome,
    id::ContainerId,
    recipe::{Purpose, Rung},
    step::Step,
    time::Timestamp,
};

/// First wait after "nobody listens"; doubles each time.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// Longest wait after "nobody listens".
const LAST_RETRY: Duration = Duration::from_millis(250);
/// How often "nobody listens" is doubted with a sidecar that has run for long
/// enough to listen.
const DOUBTS: u32 = 3;
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
    /// As it was when the first step was due: a configuration that is reloaded
    /// in between counts for the next run.
    ladder: Vec<Rung>,
    /// How many runs of it have been asked, this one included.
    runs: usize,
    rung: usize,
    retries: u32,
    phase: Phase,
    accepted: bool,
    /// Why a step was left out.
    forbidden: Option<GaveUp>,
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

impl Said {
    /// Forgets runs that nobody knows any more.
    pub(crate) fn retain(&mut self, known: impl Fn(&ContainerId) -> bool) {
        for runs in [&mut self.would_quit, &mut self.ended, &mut self.prepared] {
            runs.retain(&known);
        }
    }
}

impl Quit {
    /// Usher may not act on this pod any more.
    pub(crate) fn stop(&mut self) {
        self.sidecars.clear();
        self.delay = Delay::Ahead;
    }

    /// What is to be done changed: what was given up may be worth another try.
    pub(crate) fn reconsider(&mut self) {
        self.sidecars
            .retain(|_name, progress| progress.phase != Phase::GaveUp);
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
        match progress.phase.clone() {
            Phase::Waiting { until } if until <= now => loop {
                let Some(rung) = progress.ladder.get(progress.rung) else {
                    progress.phase = Phase::GaveUp;
                    let why = progress.forbidden.take();
                    return Next::GaveUp(why.unwrap_or(GaveUp::StillRuns));
                };
                match permission(rung) {
                    Permission::Granted => {
                        progress.phase = Phase::InFlight;
                        return Next::Attempt(rung.step.clone());
                    }
                    Permission::Unknown => return Next::Ask,
                    Permission::Denied(why) => {
                        progress.forbidden.get_or_insert(why);
                        progress.climb(now);
                    }
                }
            },
            Phase::Settling { until, outcome } if until <= now => {
                let rung = progress.ladder.get(progress.rung).cloned();
                let next = progress.climb(now);
                match rung {
                    Some(rung) if rung.purpose == Purpose::Quit => Next::Failed {
                        step: rung.step,
                        outcome,
                        next,
                    },
                    // A drain is over when its time is.
                    _ => self.next(now, sidecar, permission),
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
        sidecar: Candidate<'_>,
        outcome: &Outcome,
    ) -> Option<Judgement> {
        let Candidate {
            name, run, timings, ..
        } = sidecar;
        let progress = self
            .sidecars
            .get_mut(name)
            .filter(|progress| progress.run == *run && progress.phase == Phase::InFlight)?;
        let rung = progress.ladder.get(progress.rung)?.clone();
        Some(match outcome {
            Outcome::Accepted | Outcome::NoReply | Outcome::Signalled => {
                progress.accepted |= rung.purpose == Purpose::Quit;
                progress.phase = Phase::Settling {
                    until: now + settle(&rung, timings),
                    outcome: outcome.clone(),
                };
                Judgement::Accepted(rung)
            }
            Outcome::Gone => {
                // The event of its end is on its way.
                progress.phase = Phase::Settling {
                    until: now + timings.settle,
                    outcome: outcome.clone(),
                };
                Judgement::Wait
            }
            Outcome::Refused if may_listen_yet(now, sidecar, &rung, progress.retries) => {
                let wait = FIRST_RETRY.saturating_mul(1 << progress.retries.min(16));
                progress.retries += 1;
                progress.phase = Phase::Waiting {
                    until: now + wait.min(LAST_RETRY),
                };
                Judgement::Wait
            }
            Outcome::Refused
            | Outcome::Rejected(_)
            | Outcome::TimedOut
            | Outcome::NoProcess
            | Outcome::Failed(_) => Judgement::Failed {
                step: rung.step,
                next: progress.climb(now),
            },
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
        let sidecars = self.sidecars.values();
        let phases = sidecars.filter_map(|progress| match progress.phase {
            Phase::Waiting { until } | Phase::Settling { until, .. } => Some(until),
            Phase::InFlight | Phase::GaveUp => None,
        });
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

/// How long an accepted step has before the next one follows.
fn settle(rung: &Rung, timings: &Ladder) -> Duration {
    match (rung.purpose, &rung.step) {
        (Purpose::Drain, _) => rung.takes,
        (Purpose::Quit, Step::Request(_)) => rung.takes + timings.settle,
        (Purpose::Quit, Step::Signal { .. }) => {
            (rung.takes + timings.settle).max(timings.settle_signal)
        }
    }
}

/// Whether "nobody listens" may mean "not yet": the sidecar is young. One that
/// has run for long is asked a few times more, in case it is busy with itself.
fn may_listen_yet(now: Timestamp, sidecar: Candidate<'_>, rung: &Rung, retries: u32) -> bool {
    let since = sidecar.since.unwrap_or(now);
    rung.purpose == Purpose::Quit && (now.since(since) < sidecar.timings.listen || retries < DOUBTS)
}

impl Progress {
    fn new(run: &ContainerId, ladder: &[Rung], runs: usize, phase: Phase) -> Self {
        Self {
            run: run.clone(),
            ladder: ladder.to_vec(),
            runs,
            rung: 0,
            retries: 0,
            phase,
            accepted: false,
            forbidden: None,
        }
    }

    /// Goes on to the next step, if there is one.
    fn climb(&mut self, now: Timestamp) -> Option<Step> {
        self.rung += 1;
        self.retries = 0;
        self.phase = Phase::Waiting { until: now };
        self.ladder.get(self.rung).map(|rung| rung.step.clone())
    }
}
