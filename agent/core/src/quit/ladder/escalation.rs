//! The position of one run of a sidecar on its escalation ladder.

use std::{mem, time::Duration};

use super::{
    Judgement, Next, SidecarRun,
    timing::{LOOK_AHEAD_AFTER, again, may_listen_yet, retry, settle, too_young_until},
};
use crate::{
    base::{id::ContainerId, time::Timestamp},
    decision::GaveUp,
    quit::{
        outcome::Outcome,
        permission::{Permission, StepPolicy},
    },
    recipe::{LadderStep, Purpose, step::Step},
    settings::config::Ladder,
};

#[derive(Debug, Clone)]
pub(crate) struct Escalation {
    pub(super) run: ContainerId,
    /// The ladder at the time of the first step: a configuration that is reloaded later applies to the next run.
    ladder: Vec<LadderStep>,
    /// How many runs of the sidecar usher has terminated, this one included.
    pub(super) runs: usize,
    position: usize,
    retries: u32,
    pub(super) phase: Phase,
    /// The sidecar accepted a step, or may have.
    pub(super) accepted: bool,
    /// The step got no reply; the sidecar has until then to exit.
    unanswered: Option<Timestamp>,
    /// A step timed out; the sidecar may act on it until then, and usher does not give up before.
    late: Option<Timestamp>,
    /// Position of the first step that was not permitted, and why.
    skipped: Option<(usize, GaveUp)>,
    /// When the port of the current step was first found without a listener.
    refused_since: Option<Timestamp>,
    /// Since when no port of any step has had a listener.
    silent_since: Option<Timestamp>,
    /// The next attempt is with the next request of the ladder, in case the port of the current one never opens.
    looks_ahead: bool,
    /// Position of the step of the attempt that is in flight, where it is not the current step.
    ahead: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting {
        until: Timestamp,
    },
    InFlight,
    /// A step was accepted; the sidecar has until then to exit.
    Settling {
        until: Timestamp,
        /// When the step is repeated, as the sidecar may have missed it.
        again: Option<Timestamp>,
        outcome: Outcome,
    },
    GaveUp,
}

impl Phase {
    /// When the next action is due without another event.
    pub(super) fn due(&self) -> Option<Timestamp> {
        match *self {
            Self::Waiting { until } => Some(until),
            Self::Settling { until, again, .. } => Some(again.map_or(until, |at| at.min(until))),
            Self::InFlight | Self::GaveUp => None,
        }
    }
}

impl Escalation {
    pub(super) fn new(run: &ContainerId, ladder: &[LadderStep], runs: usize, phase: Phase) -> Self {
        Self {
            run: run.clone(),
            ladder: ladder.to_vec(),
            runs,
            position: 0,
            retries: 0,
            phase,
            accepted: false,
            unanswered: None,
            late: None,
            skipped: None,
            refused_since: None,
            silent_since: None,
            looks_ahead: false,
            ahead: None,
        }
    }

    /// What to do about the run now. Call again until it is [`Next::Nothing`] or [`Next::ExitCodesNeeded`].
    pub(crate) fn next(
        &mut self,
        now: Timestamp,
        sidecar: SidecarRun<'_>,
        policy: StepPolicy<'_>,
    ) -> Next {
        if let Phase::Waiting { until } = self.phase
            && until <= now
            && mem::take(&mut self.looks_ahead)
            && let Some((position, step)) = self.next_request(policy)
        {
            self.ahead = Some(position);
            self.phase = Phase::InFlight;
            return Next::Attempt(step);
        }
        match self.phase.clone() {
            Phase::Waiting { until } if until <= now => loop {
                let step = self.ladder.get(self.position);
                match step.map(|step| (step, policy.permission(step))) {
                    Some((step, Permission::Granted)) => {
                        let is_signal = matches!(step.step, Step::Signal { .. });
                        if is_signal && let Some(until) = too_young_until(now, sidecar) {
                            self.phase = Phase::Waiting { until };
                            return Next::Nothing;
                        }
                        self.phase = Phase::InFlight;
                        return Next::Attempt(step.step.clone());
                    }
                    Some((_step, Permission::Unknown)) => return Next::ExitCodesNeeded,
                    // The sidecar may still react to the previous step.
                    _ if let Some(until) = self.late.take_if(|until| now < *until) => {
                        self.phase = Phase::Waiting { until };
                        return Next::Nothing;
                    }
                    Some((_step, Permission::Denied(why))) => {
                        self.skipped.get_or_insert((self.position, why));
                        self.advance(now);
                    }
                    None => {
                        self.phase = Phase::GaveUp;
                        let skipped = self.skipped.clone();
                        let why = skipped.map_or(GaveUp::StillRuns, |(_position, why)| why);
                        return Next::GaveUp(why);
                    }
                }
            },
            Phase::Settling { until, outcome, .. } if until <= now => {
                let step = self.ladder.get(self.position).cloned();
                let next = self.advance(now);
                match step {
                    Some(step) if step.purpose == Purpose::Quit => Next::Failed {
                        step: step.step,
                        outcome,
                        next,
                    },
                    // A drain ends when its time has passed.
                    _ => self.next(now, sidecar, policy),
                }
            }
            Phase::Settling {
                again: Some(again), ..
            } if again <= now => {
                self.phase = Phase::InFlight;
                let step = self.ladder.get(self.position);
                step.map_or(Next::Nothing, |step| Next::Attempt(step.step.clone()))
            }
            _ => Next::Nothing,
        }
    }

    /// The next permitted request of the ladder to another port, before its next signal.
    fn next_request(&self, policy: StepPolicy<'_>) -> Option<(usize, Step)> {
        let port = |step: &LadderStep| match &step.step {
            Step::Request(request) => Some(request.port),
            Step::Signal { .. } => None,
        };
        let current = port(self.ladder.get(self.position)?);
        self.ladder
            .iter()
            .enumerate()
            .skip(self.position + 1)
            .take_while(|(_position, step)| port(step).is_some())
            .find(|(_position, step)| {
                port(step) != current && policy.permission(step) == Permission::Granted
            })
            .map(|(position, step)| (position, step.step.clone()))
    }

    /// Applies the outcome of the attempt that is in flight.
    pub(super) fn attempted(
        &mut self,
        now: Timestamp,
        sidecar: SidecarRun<'_>,
        outcome: &Outcome,
    ) -> Option<Judgement> {
        // Linger has killed the sidecar meanwhile.
        if *outcome == Outcome::Signalled && !self.signals() {
            return None;
        }
        let timings = sidecar.timings;
        match outcome {
            Outcome::Refused => {
                self.silent_since.get_or_insert(now);
            }
            _ => self.silent_since = None,
        }
        if let Some(position) = self.ahead.take() {
            if *outcome == Outcome::Refused {
                self.phase = Phase::Waiting {
                    until: now + retry(self.retries),
                };
                self.retries += 1;
                return Some(Judgement::Wait);
            }
            // The port of this step has a listener, that of the current step does not.
            self.advance(now);
            self.position = position;
        }
        let step = self.ladder.get(self.position)?.clone();
        Some(match outcome {
            Outcome::NoReply if step.purpose == Purpose::Quit => {
                self.unanswered(now, step, timings)
            }
            Outcome::Accepted | Outcome::NoReply | Outcome::Signalled => {
                self.accepted |= step.purpose == Purpose::Quit;
                self.phase = Phase::Settling {
                    until: now + settle(&step, timings),
                    again: None,
                    outcome: outcome.clone(),
                };
                // The first request of the step got no reply, and was reported then.
                if self.unanswered.is_some() {
                    Judgement::Wait
                } else {
                    Judgement::Accepted(step)
                }
            }
            Outcome::Gone => {
                // The event of its exit follows.
                self.phase = Phase::Settling {
                    until: now + timings.settle,
                    again: None,
                    outcome: outcome.clone(),
                };
                Judgement::Wait
            }
            // The previous attempt may have been received: a process that exits closes its ports first.
            _ if let Some(until) = self.unanswered => {
                self.phase = Phase::Settling {
                    until,
                    again: None,
                    outcome: Outcome::NoReply,
                };
                Judgement::Wait
            }
            Outcome::Refused
                if may_listen_yet(now, sidecar, &step, self.retries, self.next_signal(now)) =>
            {
                let wait = retry(self.retries);
                self.retries += 1;
                let since = *self.refused_since.get_or_insert(now);
                self.looks_ahead = now.since(since) >= LOOK_AHEAD_AFTER;
                self.phase = Phase::Waiting { until: now + wait };
                Judgement::Wait
            }
            Outcome::Refused
            | Outcome::Rejected(_)
            | Outcome::TimedOut
            | Outcome::NoProcess
            | Outcome::Failed(_) => {
                // The reply is late; the sidecar may exit because of the step.
                if *outcome == Outcome::TimedOut && step.purpose == Purpose::Quit {
                    self.accepted = true;
                    self.late = Some(now + settle(&step, timings));
                }
                Judgement::Failed {
                    step: step.step,
                    next: self.advance(now),
                }
            }
        })
    }

    /// Whether the attempt that is in flight is a signal.
    fn signals(&self) -> bool {
        let step = self.ladder.get(self.ahead.unwrap_or(self.position));
        step.is_some_and(|step| matches!(step.step, Step::Signal { .. }))
    }

    /// The next signal of the ladder, with the time for which no port has had a listener.
    fn next_signal(&self, now: Timestamp) -> Option<(&LadderStep, Duration)> {
        let silent = now.since(self.silent_since?);
        let mut following = self.ladder.iter().skip(self.position + 1);
        let signal = following.find(|step| matches!(step.step, Step::Signal { .. }));
        signal.map(|signal| (signal, silent))
    }

    /// The connection was closed without a reply: by a sidecar that exits, or by an HTTP handler that fails.
    fn unanswered(&mut self, now: Timestamp, step: LadderStep, timings: &Ladder) -> Judgement {
        self.accepted = true;
        let first = self.unanswered.is_none();
        if first {
            self.retries = 0;
        }
        let until = now + settle(&step, timings);
        let until = *self.unanswered.get_or_insert(until);
        let wait = again(self.retries);
        self.retries += 1;
        self.phase = Phase::Settling {
            until,
            again: Some(now + wait),
            outcome: Outcome::NoReply,
        };
        if first {
            Judgement::Accepted(step)
        } else {
            Judgement::Wait
        }
    }

    /// An app turned out to have failed: the first step that was skipped is permitted now.
    pub(super) fn retry_skipped(&mut self, now: Timestamp) {
        if self.phase == Phase::GaveUp
            && let Some((position, _why)) = self.skipped.take()
        {
            self.position = position;
            self.retries = 0;
            self.phase = Phase::Waiting { until: now };
        }
    }

    /// Advances to the next step, if there is one.
    fn advance(&mut self, now: Timestamp) -> Option<Step> {
        self.position += 1;
        self.retries = 0;
        self.unanswered = None;
        self.refused_since = None;
        self.looks_ahead = false;
        self.phase = Phase::Waiting { until: now };
        self.ladder.get(self.position).map(|step| step.step.clone())
    }
}
