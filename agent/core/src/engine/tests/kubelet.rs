//! A simple kubelet, to compare the lifecycle with.
//!
//! It is written from the rules of
//! [KEP-753](https://github.com/kubernetes/enhancements/issues/753),
//! [KEP-5307](https://github.com/kubernetes/enhancements/issues/5307) and
//! [KEP-5532](https://github.com/kubernetes/enhancements/issues/5532), and shares no code with the
//! lifecycle. One worker serves a pod: it checks which containers have ended, lists the resulting
//! work and does it piece by piece. Meanwhile other containers may end.

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Always,
    OnFailure,
    Never,
}

#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) codes: Vec<u8>,
    /// The operator is `In`, not `NotIn`.
    pub(super) within: bool,
    /// The action is `RestartAllContainers`, not `Restart`.
    pub(super) all: bool,
}

/// One regular container, and its future runs.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) is_app: bool,
    /// The restart policy that applies to it.
    pub(super) policy: Policy,
    pub(super) rules: Vec<Rule>,
    /// Exit codes of its runs; the run after the last code never exits.
    pub(super) codes: VecDeque<u8>,
    /// The number of its runs that may be lost before they start.
    pub(super) losses: usize,
    /// The number of its runs so far.
    pub(super) runs: usize,
    pub(super) state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Not started yet, or due for a restart after this exit.
    Waits(Option<Past>),
    /// Running or about to run, with the previous exit.
    Runs(Option<Past>),
    /// Ended with this code, with the exit before that.
    Ended(u8, Option<Past>),
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) run: usize,
    pub(super) code: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Kill(usize),
    /// Removes ended containers, so that all containers are new again.
    Remove,
    Start(usize),
}

/// A possible next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// This container exits.
    End(usize),
    /// The runtime restarts, and kills this container, which it had created and not started.
    Lose(usize),
    /// The worker checks the pod, or does its next piece of work.
    Work,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happened {
    Began(usize),
    /// With the code; None for SIGKILL.
    Ended(usize, Option<u8>),
    /// It was killed before it started.
    Lost(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Succeeded,
    Failed,
}

const KILLED: u8 = 137;

#[derive(Debug, Clone)]
pub(super) struct Kubelet {
    pub(super) members: Vec<Member>,
    work: VecDeque<Work>,
}

impl Member {
    /// The first matching rule decides; without one the policy does.
    pub(super) fn restarts_after(&self, code: u8) -> bool {
        match (self.rule_for(code), self.policy) {
            (Some(_), _) | (None, Policy::Always) => true,
            (None, Policy::OnFailure) => code != 0,
            (None, Policy::Never) => false,
        }
    }

    fn rule_for(&self, code: u8) -> Option<&Rule> {
        let mut rules = self.rules.iter();
        rules.find(|rule| rule.codes.contains(&code) == rule.within)
    }

    fn ended_for_good(&self) -> bool {
        matches!(self.state, State::Ended(code, _) if !self.restarts_after(code))
    }

    /// Whether its exit restarts all containers.
    fn restarts_all(&self) -> bool {
        let State::Ended(code, _) = self.state else {
            return false;
        };
        self.rule_for(code).is_some_and(|rule| rule.all)
    }

    /// Marks an ended container for a restart.
    fn wait(&mut self) {
        if let State::Ended(code, _) = self.state {
            let run = self.runs - 1;
            self.state = State::Waits(Some(Past { run, code }));
        }
    }

    pub(super) fn runs_now(&self) -> bool {
        matches!(self.state, State::Runs(_))
    }
}

impl Kubelet {
    pub(super) fn new(members: Vec<Member>) -> Self {
        Self {
            members,
            work: VecDeque::new(),
        }
    }

    /// All possible next events.
    pub(super) fn moves(&self) -> Vec<Move> {
        let ends = self.members.iter().enumerate();
        let ends = ends.filter(|(_, member)| member.runs_now() && !member.codes.is_empty());
        let mut moves: Vec<Move> = ends.map(|(at, _)| Move::End(at)).collect();
        let losses = self.members.iter().enumerate();
        let losses = losses.filter(|(_, member)| member.runs_now() && member.losses > 0);
        moves.extend(losses.map(|(at, _)| Move::Lose(at)));
        if !self.work.is_empty() || !self.to_do().is_empty() {
            moves.push(Move::Work);
        }
        moves
    }

    pub(super) fn make(&mut self, this: Move) -> Option<Happened> {
        match this {
            Move::End(at) => {
                let code = self.members[at].codes.pop_front();
                Some(self.end(at, code))
            }
            Move::Lose(at) => Some(self.lose(at)),
            Move::Work => self.work(),
        }
    }

    /// A container that was created and not started is created again, whatever the policy
    /// ([ShouldContainerBeRestarted](https://github.com/kubernetes/kubernetes/blob/v1.33.0/pkg/kubelet/container/helpers.go)).
    fn lose(&mut self, at: usize) -> Happened {
        let member = &mut self.members[at];
        let State::Runs(before) = member.state else {
            panic!("{at} does not run");
        };
        member.losses -= 1;
        member.state = State::Waits(before);
        Happened::Lost(at)
    }

    /// A container exits; a code of None is SIGKILL.
    pub(super) fn end(&mut self, at: usize, code: Option<u8>) -> Happened {
        let State::Runs(before) = self.members[at].state else {
            panic!("{at} does not run: {self:?}");
        };
        self.members[at].state = State::Ended(code.unwrap_or(KILLED), before);
        Happened::Ended(at, code)
    }

    /// Whether every app container is finished and no restart of all containers is due.
    pub(super) fn is_finished(&self) -> bool {
        let mut apps = self.members.iter().filter(|member| member.is_app);
        apps.all(Member::ended_for_good) && !self.restarts_all()
    }

    /// Whether a restart of all containers is in progress or due.
    pub(super) fn restarts_all(&self) -> bool {
        let working = self
            .work
            .iter()
            .any(|work| matches!(work, Work::Kill(_) | Work::Remove));
        // After the removal only the starts of waiting containers are left.
        working || self.members.iter().any(Member::restarts_all)
    }

    /// Whether no restart of all containers is due and no work is left.
    pub(super) fn is_settled(&self) -> bool {
        !self.restarts_all() && self.work.is_empty()
    }

    /// The phase of a pod with only these containers.
    pub(super) fn phase(&self, which: impl Fn(&Member) -> bool) -> Phase {
        let members: Vec<&Member> = self.members.iter().filter(|member| which(member)).collect();
        if self.restarts_all() || !members.iter().all(|member| member.ended_for_good()) {
            return Phase::Running;
        }
        let good = |member: &&Member| matches!(member.state, State::Ended(0, _));
        if members.iter().all(good) {
            Phase::Succeeded
        } else {
            Phase::Failed
        }
    }

    fn work(&mut self) -> Option<Happened> {
        if self.work.is_empty() {
            self.work = self.to_do();
            for work in &self.work {
                if let Work::Start(at) = work {
                    self.members[*at].wait();
                }
            }
            return None;
        }
        match self.work.pop_front()? {
            Work::Kill(at) if self.members[at].runs_now() => Some(self.end(at, None)),
            Work::Kill(_) => None,
            Work::Remove => {
                self.members.iter_mut().for_each(Member::wait);
                let all = 0..self.members.len();
                self.work = all.map(Work::Start).collect();
                None
            }
            Work::Start(at) => {
                let member = &mut self.members[at];
                let State::Waits(before) = member.state else {
                    panic!("{at} does not wait: {self:?}");
                };
                member.state = State::Runs(before);
                member.runs += 1;
                Some(Happened::Began(at))
            }
        }
    }

    /// The work that results from the current state of the pod.
    fn to_do(&self) -> VecDeque<Work> {
        let members = self.members.iter().enumerate();
        if self.members.iter().any(Member::restarts_all) {
            let living = members.filter(|(_, member)| member.runs_now());
            let kills = living.map(|(at, _)| Work::Kill(at));
            return kills.chain([Work::Remove]).collect();
        }
        let due = members.filter(|(_, member)| match member.state {
            State::Waits(_) => true,
            State::Runs(_) => false,
            State::Ended(code, _) => member.restarts_after(code),
        });
        due.map(|(at, _)| Work::Start(at)).collect()
    }
}
