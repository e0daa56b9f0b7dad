//! Which starts of a pod's apps are held, and what became of each.
//!
//! A start is held from the moment that the pod's sandbox is known until its
//! doors open: whatever opens all of them lets the starts go. The holder and the
//! runtime are quick or slow as they please; what counts here is what they told.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    base::{
        id::{ContainerId, ContainerKey, PodUid},
        time::Timestamp,
    },
    decision::Kind,
    engine::action::Action,
    hold::{
        Opened,
        conditions::Known,
        lifecycle::Holding,
        state::{Sandbox, State},
    },
    pod::state::Tracked,
    quit::report,
    settings::mode::Mode,
    start::{NotHeld, Start, Told, Why},
};

/// The starts of one pod.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// What was asked for last.
    wanted: Vec<Start>,
    /// Runs of the pod that had begun before they could be asked for.
    begun: u64,
    /// Why nothing is wanted any more.
    why: Option<Opened>,
    runs: BTreeMap<ContainerId, Progress>,
    /// Of what it has been said that it cannot be held.
    said: BTreeSet<String>,
}

/// How far the start of one run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It will be held.
    Marked,
    /// It waits.
    Held(Timestamp),
    /// There is nothing to hold any more.
    Over,
}

impl Starts {
    /// How many wait.
    pub(crate) fn held(&self) -> usize {
        let held = |progress: &&Progress| matches!(progress, Progress::Held(_));
        self.runs.values().filter(held).count()
    }

    /// Nothing of the pod is to be held any more: it is going.
    pub(crate) fn withdraw(&mut self, pod: &PodUid) -> Option<Action> {
        if self.wanted.is_empty() {
            return None;
        }
        self.wanted.clear();
        self.why = Some(Opened::Ending);
        Some(Action::HoldStarts {
            pod: pod.clone(),
            starts: Vec::new(),
        })
    }

    /// A run has ended; whether its start was to be held.
    pub(crate) fn ended(&self, id: &ContainerId) -> bool {
        let progress = self.runs.get(id);
        progress.is_some_and(|progress| *progress != Progress::Over)
    }

    /// Nothing more will be told of a run.
    pub(crate) fn gone(&mut self, id: &ContainerId) {
        if self.runs.get(id) == Some(&Progress::Over) {
            self.runs.remove(id);
        }
    }
}

impl<'engine> Holding<'engine> {
    /// Has starts held or let go, as the pod's sandbox demands now.
    pub(crate) fn starts(
        self,
        sandbox: Option<&Sandbox>,
        tracked: &mut Tracked,
        actions: &mut Vec<Action>,
    ) {
        let state = sandbox.map(|sandbox| &sandbox.state);
        let why = match state {
            None => Some(Opened::Ending),
            Some(State::Pending | State::Arming { .. } | State::Shut(_)) => None,
            Some(State::Opening { why, .. }) => Some(*why),
            Some(State::Over { .. }) if sandbox.is_some_and(|sandbox| sandbox.released) => {
                Some(Opened::ByHand)
            }
            Some(State::Over { .. }) => Some(Opened::NotWanted),
        };
        let (wanted, why) = match (why, self.known) {
            (Some(why), _) => (Vec::new(), why),
            // Nothing new is known of it.
            (None, None) => return,
            (None, Some(known)) => (
                self.wanted_starts(known, tracked, actions),
                Opened::NotWanted,
            ),
        };
        if wanted == tracked.hold.starts.wanted {
            return;
        }
        if wanted.is_empty() {
            self.missed(tracked, actions);
            tracked.hold.starts.why = Some(why);
        } else if tracked.hold.starts.wanted.is_empty() {
            // In a sandbox that was told of in time none has begun.
            let told = sandbox.filter(|sandbox| !sandbox.found);
            let begun = told.map_or(tracked.begun(), |sandbox| sandbox.begun);
            tracked.hold.starts.begun = begun;
            tracked.hold.starts.why = None;
        }
        tracked.hold.starts.wanted.clone_from(&wanted);
        actions.push(Action::HoldStarts {
            pod: tracked.uid.clone(),
            starts: wanted,
        });
    }

    fn wanted_starts(
        self,
        known: Known<'engine>,
        tracked: &mut Tracked,
        actions: &mut Vec<Action>,
    ) -> Vec<Start> {
        if self.mode != Mode::Enforce || self.not_held(known).is_some() {
            return Vec::new();
        }
        for start in &known.plan.starts {
            let why = match (&start.limit, &self.features.start) {
                (_, Err(lacks)) => NotHeld::Node {
                    lacks: lacks.clone(),
                },
                (Err(why), Ok(())) => why.clone(),
                (Ok(_limit), Ok(())) => continue,
            };
            if tracked.hold.starts.said.insert(start.container.clone()) {
                let kind = Kind::StartNotHeld(why);
                let (spec, name) = (Some(known.spec), Some(start.container.as_str()));
                actions.push(report(tracked, spec, name, kind, None));
            }
        }
        self.starts_to_be_held(known)
    }

    /// The starts that will be held, as far as is known beforehand.
    pub(crate) fn starts_to_be_held(self, known: Known<'_>) -> Vec<Start> {
        let starts = known.plan.starts.iter();
        let starts = starts.filter(|_| self.features.start.is_ok());
        let starts = starts.filter_map(|start| {
            Some(Start {
                container: start.container.clone(),
                limit: *start.limit.as_ref().ok()?,
                probe: start.probe,
            })
        });
        starts.collect()
    }

    /// Says which of the starts that were wanted nobody has been told of: they
    /// came before they could be held.
    fn missed(self, tracked: &mut Tracked, actions: &mut Vec<Action>) {
        let starts = &tracked.hold.starts;
        let mut missed: Vec<(String, ContainerId)> = Vec::new();
        for start in &starts.wanted {
            let runs = tracked.runs_of(&start.container).into_iter();
            let unseen = runs.filter(|(id, run)| {
                run.since.is_some() && run.order >= starts.begun && !starts.runs.contains_key(*id)
            });
            missed.extend(unseen.map(|(id, _run)| (start.container.clone(), id.clone())));
        }
        for (name, id) in missed {
            tracked.hold.starts.runs.insert(id, Progress::Over);
            let spec = self.known.map(|known| known.spec);
            actions.push(report(tracked, spec, Some(&name), Kind::StartMissed, None));
        }
    }

    /// What became of the start of one run.
    pub(crate) fn start_told(
        self,
        key: &ContainerKey,
        name: &str,
        told: Told,
        tracked: &mut Tracked,
        actions: &mut Vec<Action>,
    ) {
        let starts = &mut tracked.hold.starts;
        let before = starts.runs.get(&key.id).copied();
        let why = Why::Opened(starts.why.unwrap_or(Opened::NotWanted));
        let lives = |tracked: &Tracked| {
            let mut runs = tracked.runs_of(name).into_iter();
            runs.any(|(id, run)| *id == key.id && run.lives())
        };
        let (after, kind) = match told {
            Told::Marked => (Progress::Marked, None),
            Told::Unable(reason) => {
                let kind = Kind::StartNotHeld(NotHeld::Container { reason });
                (Progress::Over, Some(kind))
            }
            Told::Held => (Progress::Held(self.now), self.held_kind(name)),
            Told::LetGo {
                held: None, ran, ..
            } => {
                // Held it would have waited; it cannot have run and ended since.
                let runs = tracked.runs_of(name).into_iter();
                let mut ended = runs.filter(|(_id, run)| run.since.is_some() && !run.lives());
                let ended = ended.any(|(id, _run)| *id == key.id);
                let missed = before != Some(Progress::Over) && (ran || ended);
                (Progress::Over, missed.then_some(Kind::StartMissed))
            }
            Told::LetGo {
                held: Some(held),
                at_limit,
                ..
            } => {
                let why = match (at_limit, lives(tracked)) {
                    (true, _) => Why::Limit,
                    (false, true) => why,
                    (false, false) => Why::ContainerEnded,
                };
                (Progress::Over, Some(Kind::StartReleased { why, held }))
            }
            Told::Lost => {
                let kind = match before {
                    Some(Progress::Held(since)) => Kind::StartReleased {
                        why: Why::HolderEnded,
                        held: self.now.since(since),
                    },
                    _ => Kind::StartNotHeld(NotHeld::Container {
                        reason: "the process that holds starts ended".to_owned(),
                    }),
                };
                (Progress::Over, Some(kind))
            }
        };
        tracked.hold.starts.runs.insert(key.id.clone(), after);
        if let Some(kind) = kind {
            let spec = self.known.map(|known| known.spec);
            actions.push(report(tracked, spec, Some(name), kind, None));
        }
    }

    fn held_kind(self, name: &str) -> Option<Kind> {
        let mut starts = self.starts_to_be_held(self.known?).into_iter();
        let start = starts.find(|start| start.container == name)?;
        Some(Kind::StartHeld(start))
    }

    /// By how long the starts of running apps would have been held until now.
    pub(crate) fn would_hold_starts(self, tracked: &Tracked) -> Vec<(String, Duration)> {
        let starts = self.known.map(|known| self.starts_to_be_held(known));
        let starts = starts.into_iter().flatten();
        let held = starts.filter_map(|start| {
            let (_id, run) = tracked.newest(&start.container)?;
            let since = run.since.filter(|_| run.lives())?;
            Some((start.container, self.now.since(since).min(start.limit)))
        });
        held.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_is_forgotten_when_its_container_has_gone() {
        let [over, marked] =
            ["a", "b"].map(|letter| ContainerId::parse(&letter.repeat(64)).unwrap());
        let runs = [
            (over.clone(), Progress::Over),
            (marked.clone(), Progress::Marked),
        ];
        let mut starts = Starts {
            runs: runs.into(),
            ..Starts::default()
        };
        // The holder still tells what became of it.
        starts.gone(&marked);
        starts.gone(&over);
        assert!(starts.runs.keys().eq([&marked]));
    }
}
