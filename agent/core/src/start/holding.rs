//! Which starts of a pod's apps are held, and the result of each.
//!
//! A start is held from the announcement of the pod's sandbox until its ports are released: every release of all
//! ports also releases the starts. The holder and the runtime act asynchronously, so decisions depend on what they
//! have reported.

use super::state::{StartState, Starts};
use crate::{
    base::id::{ContainerId, ContainerKey},
    decision::Kind,
    engine::action::Action,
    hold::{
        Released,
        review::HoldReview,
        state::{Hold, HoldPhase, Sandbox},
    },
    pod::{state::runs::Run, view::PodView},
    settings::mode::Mode,
    start::{NotHeld, Start, StartResult, Why},
};

impl<'engine> HoldReview<'engine> {
    /// Holds or releases starts as the pod's sandbox requires now.
    pub(crate) fn review_starts(self, hold: &mut Hold, actions: &mut Vec<Action>) {
        let Hold {
            sandbox, starts, ..
        } = hold;
        let sandbox = sandbox.as_ref();
        let (wanted, why) = match (why_released(sandbox), self.view) {
            (Some(why), _) => (Vec::new(), why),
            // Nothing new is known about the pod.
            (None, None) => return,
            (None, Some(view)) => (
                self.wanted_starts(view, starts, actions),
                Released::NotWanted,
            ),
        };
        let id = sandbox.map(|sandbox| &sandbox.id);
        let is_first = starts.reviewed.as_ref() != id;
        if is_first {
            starts.reviewed = id.cloned();
        }
        if wanted == starts.wanted {
            return;
        }
        if wanted.is_empty() {
            self.report_missed(starts, actions);
            starts.why = Some(why);
        } else if starts.wanted.is_empty() {
            // Starts were to be held from the announcement on. Later, such as after a pause or for a sidecar that
            // restarts, earlier runs were not.
            let announced = sandbox.filter(|sandbox| is_first && !sandbox.is_found());
            starts.first_run = announced.map_or(self.runs.count(), |sandbox| sandbox.first_run);
            starts.why = None;
        }
        starts.wanted.clone_from(&wanted);
        actions.push(Action::HoldStarts {
            pod: self.uid.clone(),
            starts: wanted,
        });
    }

    fn wanted_starts(
        self,
        view: &'engine PodView,
        starts: &mut Starts,
        actions: &mut Vec<Action>,
    ) -> Vec<Start> {
        if self.mode != Mode::Enforce || self.not_held(view).is_some() {
            return Vec::new();
        }
        for start in &view.plan.starts {
            let why = match (&start.limit, &self.features.start) {
                (_, Err(lacks)) => NotHeld::Node {
                    lacks: lacks.clone(),
                },
                (Err(why), Ok(())) => why.clone(),
                (Ok(_limit), Ok(())) => continue,
            };
            if starts.reported.insert(start.container.clone()) {
                actions.push(self.report(Some(&start.container), Kind::StartNotHeld(why)));
            }
        }
        let mut wanted = self.conditions(view).starts_to_hold(self.features);
        wanted.retain(|start| !starts.denied.contains(&start.container));
        wanted
    }

    /// Reports the wanted starts without a report from the holder: they happened before they could be held.
    fn report_missed(self, starts: &mut Starts, actions: &mut Vec<Action>) {
        let mut missed: Vec<(String, ContainerId)> = Vec::new();
        for start in &starts.wanted {
            let unseen = self
                .runs
                .runs_of(&start.container)
                .into_iter()
                .filter(|(id, run)| {
                    run.since.is_some()
                        && run.order >= starts.first_run
                        && !starts.runs.contains_key(*id)
                });
            missed.extend(unseen.map(|(id, _run)| (start.container.clone(), id.clone())));
        }
        for (name, id) in missed {
            starts.runs.insert(id, StartState::Over);
            actions.push(self.report(Some(&name), Kind::StartMissed));
        }
    }

    /// Applies what the holder reports about the start of one run.
    pub(crate) fn start_reported(
        self,
        key: &ContainerKey,
        name: &str,
        result: StartResult,
        starts: &mut Starts,
        actions: &mut Vec<Action>,
    ) {
        let before = starts.runs.get(&key.id).copied();
        let run_of = || {
            let mut runs = self.runs.runs_of(name).into_iter();
            runs.find(|(id, _run)| **id == key.id).map(|(_id, run)| run)
        };
        let (after, kind) = match result {
            // The holder was slow: the start may have been reported as missed. A new hold wants another mark.
            StartResult::Marked if !starts.wants(name) => {
                (before.unwrap_or(StartState::Marked), None)
            }
            StartResult::Marked => (StartState::Marked, None),
            StartResult::Unable(reason) => {
                let kind = Kind::StartNotHeld(NotHeld::Container { reason });
                (StartState::Over, Some(kind))
            }
            StartResult::Denied(reason) => {
                starts.denied.insert(name.to_owned());
                let kind = Kind::StartNotHeld(NotHeld::Denied { reason });
                (StartState::Over, Some(kind))
            }
            StartResult::Held => (StartState::Held(self.now), self.held_kind(name)),
            StartResult::Released {
                held: None, ran, ..
            } => {
                // A held start cannot have run and ended since.
                let ended = run_of().is_some_and(|run| run.since.is_some() && !run.lives());
                let missed = !before.is_some_and(StartState::is_over) && (ran || ended);
                (StartState::Over, missed.then_some(Kind::StartMissed))
            }
            StartResult::Released {
                held: Some(held),
                at_limit,
                ..
            } => {
                let lives = run_of().is_some_and(Run::lives);
                let why = match (at_limit, lives) {
                    (true, _) => Why::Limit,
                    (false, true) => Why::Released(starts.why.unwrap_or(Released::NotWanted)),
                    (false, false) => Why::ContainerEnded,
                };
                (StartState::Over, Some(Kind::StartReleased { why, held }))
            }
            StartResult::Lost => {
                let kind = match before {
                    Some(StartState::Held(since)) => Kind::StartReleased {
                        why: Why::HolderEnded,
                        held: self.now.since(since),
                    },
                    _ => Kind::StartNotHeld(NotHeld::Container {
                        reason: "the process that holds starts ended".to_owned(),
                    }),
                };
                (StartState::Over, Some(kind))
            }
        };
        starts.runs.insert(key.id.clone(), after);
        if let Some(kind) = kind {
            actions.push(self.report(Some(name), kind));
        }
    }

    fn held_kind(self, name: &str) -> Option<Kind> {
        self.conditions(self.view?)
            .starts_to_hold(self.features)
            .into_iter()
            .find(|start| start.container == name)
            .map(Kind::StartHeld)
    }
}

/// Why the starts of a pod are not held, from the phase of its sandbox; None while they are.
fn why_released(sandbox: Option<&Sandbox>) -> Option<Released> {
    let Some(sandbox) = sandbox else {
        return Some(Released::Ending);
    };
    match &sandbox.phase {
        HoldPhase::Pending | HoldPhase::Arming { .. } | HoldPhase::Holding(_) => None,
        HoldPhase::Releasing { why, .. } => Some(*why),
        HoldPhase::Released {
            by_operator: true, ..
        } => Some(Released::ByOperator),
        HoldPhase::Released { .. } => Some(Released::NotWanted),
    }
}
