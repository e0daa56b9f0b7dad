//! The starts of one pod.

use std::collections::{BTreeMap, BTreeSet};

use super::Start;
use crate::{
    base::{
        id::{ContainerId, PodUid, SandboxId},
        time::Timestamp,
    },
    engine::action::Action,
    hold::Released,
};

#[derive(Debug, Clone, Default)]
pub(crate) struct Starts {
    /// The starts that the holder should hold.
    pub(super) wanted: Vec<Start>,
    /// The number of runs of the pod that had begun before the request.
    pub(super) first_run: u64,
    /// The sandbox for which it was last decided which starts are held.
    pub(super) reviewed: Option<SandboxId>,
    /// Why the starts were released.
    pub(super) why: Option<Released>,
    pub(super) runs: BTreeMap<ContainerId, StartState>,
    /// Containers that were reported as not held.
    pub(super) reported: BTreeSet<String>,
    /// Containers with a denied exec. Another mark would deny their next start as well.
    pub(super) denied: BTreeSet<String>,
}

/// The state of the start of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartState {
    /// The holder will hold it.
    Marked,
    Held(Timestamp),
    /// Nothing is left to hold.
    Over,
    /// The run has ended as well.
    Ended,
}

impl StartState {
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Over | Self::Ended)
    }
}

impl Starts {
    pub(crate) fn held(&self) -> usize {
        let held = |progress: &&StartState| matches!(progress, StartState::Held(_));
        self.runs.values().filter(held).count()
    }

    pub(super) fn wants(&self, name: &str) -> bool {
        self.wanted.iter().any(|start| start.container == name)
    }

    /// Releases all starts of a pod that is ending or not held. None of them counts as missed.
    pub(crate) fn withdraw(&mut self, pod: &PodUid, why: Released) -> Option<Action> {
        if self.wanted.is_empty() {
            return None;
        }
        self.wanted.clear();
        self.why = Some(why);
        Some(Action::HoldStarts {
            pod: pod.clone(),
            starts: Vec::new(),
        })
    }

    /// Whether the start of a run that has ended was to be held.
    pub(crate) fn was_held(&self, id: &ContainerId) -> bool {
        let progress = self.runs.get(id);
        progress.is_some_and(|progress| !progress.is_over())
    }

    /// A run has ended, or its cgroup is gone. Its start is remembered while the run is, so that it does not count as missed.
    pub(crate) fn ended(&mut self, id: &ContainerId, is_known: impl Fn(&ContainerId) -> bool) {
        if let Some(progress) = self.runs.get_mut(id).filter(|progress| progress.is_over()) {
            *progress = StartState::Ended;
        }
        self.runs
            .retain(|id, progress| *progress != StartState::Ended || is_known(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_start_is_forgotten_with_its_run() {
        let [over, marked, created] =
            ["a", "b", "c"].map(|letter| ContainerId::parse(&letter.repeat(64)).unwrap());
        let runs = [
            (over.clone(), StartState::Over),
            (marked.clone(), StartState::Marked),
            (created.clone(), StartState::Over),
        ];
        let mut starts = Starts {
            runs: runs.into(),
            ..Starts::default()
        };
        // The holder still reports the result of the second one.
        starts.ended(&marked, |_id| true);
        starts.ended(&over, |_id| true);
        assert!(starts.runs.keys().eq([&over, &marked, &created]));
        // The run of the third one is not known yet.
        starts.ended(&marked, |id| *id == marked);
        assert!(starts.runs.keys().eq([&marked, &created]));
    }
}
