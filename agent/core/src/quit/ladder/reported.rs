//! The milestones of a pod, each of which happens once, and what was reported last.

use std::collections::BTreeSet;

use crate::{base::id::ContainerId, decision::Kind, settings::overrides::InvalidAnnotation};

/// Something that happens once in a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Milestone {
    Finished,
    Skipped,
    /// An app failed, so no step can make the pod fail.
    AppFailed,
    WouldQuit(ContainerId),
    Exited(ContainerId),
    /// The run accepted a request before usher lost the permission to act.
    Requested(ContainerId),
    Prepared(ContainerId),
    /// The kubelet was queried whether the pod is being deleted, when this run of an app had ended.
    Queried(ContainerId),
    /// The pod is being deleted, and usher terminates its sidecars.
    QuitOnDeletion,
    /// The pod is being deleted, and all its sidecars are left to the kubelet.
    PodLeftToKubelet,
    LeftToKubelet(ContainerId),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Reported {
    pub(crate) last_decision: Option<Kind>,
    pub(crate) bad_annotations: Vec<InvalidAnnotation>,
    milestones: BTreeSet<Milestone>,
}

impl Reported {
    pub(crate) fn contains(&self, milestone: &Milestone) -> bool {
        self.milestones.contains(milestone)
    }

    /// Records a milestone; false if it was recorded before.
    pub(crate) fn insert(&mut self, milestone: Milestone) -> bool {
        self.milestones.insert(milestone)
    }

    /// The pod turned out unfinished. The milestones of runs that exited stay.
    pub(super) fn reset(&mut self) {
        self.milestones.retain(|milestone| match milestone {
            Milestone::Finished | Milestone::Skipped | Milestone::AppFailed | Milestone::WouldQuit(_) => false,
            Milestone::Exited(_)
            | Milestone::Requested(_)
            | Milestone::Prepared(_)
            | Milestone::Queried(_)
            // A deletion is not revoked.
            | Milestone::QuitOnDeletion
            | Milestone::PodLeftToKubelet
            | Milestone::LeftToKubelet(_) => true,
        });
    }

    /// Forgets the runs that the pod no longer keeps.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&ContainerId) -> bool) {
        self.milestones.retain(|milestone| match milestone {
            Milestone::Finished
            | Milestone::Skipped
            | Milestone::AppFailed
            | Milestone::QuitOnDeletion
            | Milestone::PodLeftToKubelet => true,
            Milestone::WouldQuit(run)
            | Milestone::Exited(run)
            | Milestone::Requested(run)
            | Milestone::Prepared(run)
            | Milestone::Queried(run)
            | Milestone::LeftToKubelet(run) => is_kept(run),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milestones_of_forgotten_runs_are_removed() {
        let id = |digit: &str| ContainerId::parse(&digit.repeat(64)).unwrap();
        let milestones = |run: &ContainerId| {
            [
                Milestone::WouldQuit(run.clone()),
                Milestone::Exited(run.clone()),
                Milestone::Requested(run.clone()),
                Milestone::Prepared(run.clone()),
                Milestone::Queried(run.clone()),
                Milestone::LeftToKubelet(run.clone()),
            ]
        };
        let mut reported = Reported {
            milestones: [id("a"), id("b")].iter().flat_map(milestones).collect(),
            ..Reported::default()
        };
        reported.retain(|run| *run == id("b"));
        assert_eq!(reported.milestones, BTreeSet::from(milestones(&id("b"))));
    }
}
