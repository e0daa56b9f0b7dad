//! How far one run of a sidecar is on its ladder.

use super::{
    Candidate, Judgement, Next, Permission,
    timing::{HEARS, again, may_listen_yet, retry, settle},
};
use crate::{
    base::{id::ContainerId, time::Timestamp},
    decision::GaveUp,
    quit::outcome::Outcome,
    recipe::{Purpose, Rung, step::Step},
    settings::config::Ladder,
};

#[derive(Debug)]
pub(super) struct Progress {
    pub(super) run: ContainerId,
    /// As it was when the first step was due: a configuration that is reloaded
    /// in between counts for the next run.
    ladder: Vec<Rung>,
    /// How many runs of it have been asked, this one included.
    pub(super) runs: usize,
    rung: usize,
    retries: u32,
    pub(super) phase: Phase,
    /// It was asked, and may have heard it.
    pub(super) accepted: bool,
    /// This step was taken without a reply, and has until then.
    unanswered: Option<Timestamp>,
    /// A step was not answered in time, and may be heeded until then: nothing is given up before.
    late: Option<Timestamp>,
    /// The first step that was left out, and why.
    forbidden: Option<(usize, GaveUp)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// The next attempt is due.
    Waiting {
        until: Timestamp,
    },
    /// An attempt is being made.
    InFlight,
    /// A step was accepted; the sidecar has until then to end.
    Settling {
        until: Timestamp,
        /// When it is asked the same again, as it may not have been heard.
        again: Option<Timestamp>,
        outcome: Outcome,
    },
    GaveUp,
}

impl Phase {
    /// When something is due although nothing happened.
    pub(super) fn due(&self) -> Option<Timestamp> {
        match *self {
            Self::Waiting { until } => Some(until),
            Self::Settling { until, again, .. } => Some(again.map_or(until, |at| at.min(until))),
            Self::InFlight | Self::GaveUp => None,
        }
    }
}

impl Progress {
    pub(super) fn new(run: &ContainerId, ladder: &[Rung], runs: usize, phase: Phase) -> Self {
        Self {
            run: run.clone(),
            ladder: ladder.to_vec(),
            runs,
            rung: 0,
            retries: 0,
            phase,
            accepted: false,
            unanswered: None,
            late: None,
            forbidden: None,
        }
    }

    /// Says what is to be done about the run now.
    pub(super) fn next(
        &mut self,
        now: Timestamp,
        sidecar: Candidate<'_>,
        permission: impl Fn(&Rung) -> Permission,
    ) -> Next {
        match self.phase.clone() {
            Phase::Waiting { until } if until <= now => loop {
                let rung = self.ladder.get(self.rung);
                match rung.map(|rung| (rung, permission(rung))) {
                    Some((rung, Permission::Granted)) => {
                        let hears = sidecar.since.map_or(now, |since| since + HEARS);
                        if matches!(rung.step, Step::Signal { .. }) && now < hears {
                            self.phase = Phase::Waiting { until: hears };
                            return Next::Nothing;
                        }
                        self.phase = Phase::InFlight;
                        return Next::Attempt(rung.step.clone());
                    }
                    Some((_rung, Permission::Unknown)) => return Next::Ask,
                    // What was asked before may be heeded yet.
                    _ if let Some(until) = self.late.take_if(|until| now < *until) => {
                        self.phase = Phase::Waiting { until };
                        return Next::Nothing;
                    }
                    Some((_rung, Permission::Denied(why))) => {
                        self.forbidden.get_or_insert((self.rung, why));
                        self.climb(now);
                    }
                    None => {
                        self.phase = Phase::GaveUp;
                        let why = self.forbidden.clone();
                        return Next::GaveUp(why.map_or(GaveUp::StillRuns, |(_rung, why)| why));
                    }
                }
            },
            Phase::Settling { until, outcome, .. } if until <= now => {
                let rung = self.ladder.get(self.rung).cloned();
                let next = self.climb(now);
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
            Phase::Settling {
                again: Some(again), ..
            } if again <= now => {
                self.phase = Phase::InFlight;
                let rung = self.ladder.get(self.rung);
                rung.map_or(Next::Nothing, |rung| Next::Attempt(rung.step.clone()))
            }
            _ => Next::Nothing,
        }
    }

    /// Takes the outcome of the attempt that is in flight.
    pub(super) fn attempted(
        &mut self,
        now: Timestamp,
        sidecar: Candidate<'_>,
        outcome: &Outcome,
    ) -> Option<Judgement> {
        let timings = sidecar.timings;
        let rung = self.ladder.get(self.rung)?.clone();
        Some(match outcome {
            Outcome::NoReply if rung.purpose == Purpose::Quit => {
                self.unanswered(now, rung, timings)
            }
            Outcome::Accepted | Outcome::NoReply | Outcome::Signalled => {
                self.accepted |= rung.purpose == Purpose::Quit;
                self.phase = Phase::Settling {
                    until: now + settle(&rung, timings),
                    again: None,
                    outcome: outcome.clone(),
                };
                Judgement::Accepted(rung)
            }
            Outcome::Gone => {
                // The event of its end is on its way.
                self.phase = Phase::Settling {
                    until: now + timings.settle,
                    again: None,
                    outcome: outcome.clone(),
                };
                Judgement::Wait
            }
            // The one before may have been heard: what ends closes its ports first.
            _ if let Some(until) = self.unanswered => {
                self.phase = Phase::Settling {
                    until,
                    again: None,
                    outcome: Outcome::NoReply,
                };
                Judgement::Wait
            }
            Outcome::Refused if may_listen_yet(now, sidecar, &rung, self.retries) => {
                let wait = retry(self.retries);
                self.retries += 1;
                self.phase = Phase::Waiting { until: now + wait };
                Judgement::Wait
            }
            Outcome::Refused
            | Outcome::Rejected(_)
            | Outcome::TimedOut
            | Outcome::NoProcess
            | Outcome::Failed(_) => {
                // Its answer is late; that it ends is what it was asked for.
                if *outcome == Outcome::TimedOut && rung.purpose == Purpose::Quit {
                    self.accepted = true;
                    self.late = Some(now + settle(&rung, timings));
                }
                Judgement::Failed {
                    step: rung.step,
                    next: self.climb(now),
                }
            }
        })
    }

    /// The connection was closed without a reply: what quits looks like that, and so does a handler that fails.
    fn unanswered(&mut self, now: Timestamp, rung: Rung, timings: &Ladder) -> Judgement {
        self.accepted = true;
        let first = self.unanswered.is_none();
        if first {
            self.retries = 0;
        }
        let until = now + settle(&rung, timings);
        let until = *self.unanswered.get_or_insert(until);
        let wait = again(self.retries);
        self.retries += 1;
        self.phase = Phase::Settling {
            until,
            again: Some(now + wait),
            outcome: Outcome::NoReply,
        };
        if first {
            Judgement::Accepted(rung)
        } else {
            Judgement::Wait
        }
    }

    /// An app turned out to have failed: the first step that was left out may be taken now.
    pub(super) fn take_up(&mut self, now: Timestamp) {
        if self.phase == Phase::GaveUp
            && let Some((rung, _why)) = self.forbidden.take()
        {
            self.rung = rung;
            self.retries = 0;
            self.phase = Phase::Waiting { until: now };
        }
    }

    /// Goes on to the next step, if there is one.
    fn climb(&mut self, now: Timestamp) -> Option<Step> {
        self.rung += 1;
        self.retries = 0;
        self.unanswered = None;
        self.phase = Phase::Waiting { until: now };
        self.ladder.get(self.rung).map(|rung| rung.step.clone())
    }
}
