//! The starts of one pod.

use std::collections::{BTreeMap, BTreeSet};

use super::Start;
use crate::{
    base::{
        id::{ContainerId, PodUid},
        time::Timestamp,
    },
    engine::action::Action,
    hold::Opened,
};

#[derive(Debug, Clone, Default)]
pub(crate) struct Starts {
    /// The starts that the holder should hold.
    pub(super) wanted: Vec<Start>,
    /// The number of runs of the pod that had begun before the request.
    pub(super) first_run: u64,
    /// Why the starts were released.
    pub(super) why: Option<Opened>,
    pub(super) runs: BTreeMap<ContainerId, Progress>,
    /// Containers that were reported as not held.
    pub(super) reported: BTreeSet<String>,
    /// Containers with a denied exec. Another mark would deny their next start as well.
    pub(super) denied: BTreeSet<String>,
}

/// The state of the start of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The holder will hold it.
    Marked,
    Held(Timestamp),
    /// Nothing is left to hold.
    Over,
}

impl Starts {
    pub(crate) fn held(&self) -> usize {
        let held = |progress: &&Progress| matches!(progress, Progress::Held(_));
        self.runs.values().filter(held).count()
    }

    /// Releases all starts of a pod that is ending.
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

    /// Whether the start of a run that has ended was to be held.
    pub(crate) fn was_held(&self, id: &ContainerId) -> bool {
        let progress = self.runs.get(id);
        progress.is_some_and(|progress| *progress != Progress::Over)
    }

    /// The cgroup of a run is gone.
    pub(crate) fn remove(&mut self, id: &ContainerId) {
        if self.runs.get(id) == Some(&Progress::Over) {
            self.runs.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_start_is_forgotten_with_its_container() {
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
        // The holder still reports its result.
        starts.remove(&marked);
        starts.remove(&over);
        assert!(starts.runs.keys().eq([&marked]));
    }
}
