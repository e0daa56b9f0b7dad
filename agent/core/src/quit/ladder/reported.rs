//! What has been reported about a pod's sidecars, so that each report is made once.

use std::collections::BTreeSet;

use crate::{base::id::ContainerId, decision::Kind, settings::overrides::InvalidAnnotation};

/// A report that is made once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Report {
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
    reports: BTreeSet<Report>,
}

impl Reported {
    pub(crate) fn contains(&self, report: &Report) -> bool {
        self.reports.contains(report)
    }

    /// Marks a report as made; false if it was made before.
    pub(crate) fn insert(&mut self, report: Report) -> bool {
        self.reports.insert(report)
    }

    /// The pod turned out unfinished. Reports about runs that exited stay made.
    pub(super) fn reset(&mut self) {
        self.reports.retain(|report| match report {
            Report::Finished | Report::Skipped | Report::AppFailed | Report::WouldQuit(_) => false,
            Report::Exited(_)
            | Report::Requested(_)
            | Report::Prepared(_)
            | Report::Queried(_)
            // A deletion is not revoked.
            | Report::QuitOnDeletion
            | Report::PodLeftToKubelet
            | Report::LeftToKubelet(_) => true,
        });
    }

    /// Forgets the runs that the pod no longer keeps.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&ContainerId) -> bool) {
        self.reports.retain(|report| match report {
            Report::Finished
            | Report::Skipped
            | Report::AppFailed
            | Report::QuitOnDeletion
            | Report::PodLeftToKubelet => true,
            Report::WouldQuit(run)
            | Report::Exited(run)
            | Report::Requested(run)
            | Report::Prepared(run)
            | Report::Queried(run)
            | Report::LeftToKubelet(run) => is_kept(run),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_about_forgotten_runs_are_removed() {
        let id = |digit: &str| ContainerId::parse(&digit.repeat(64)).unwrap();
        let reports = |run: &ContainerId| {
            [
                Report::WouldQuit(run.clone()),
                Report::Exited(run.clone()),
                Report::Requested(run.clone()),
                Report::Prepared(run.clone()),
                Report::Queried(run.clone()),
                Report::LeftToKubelet(run.clone()),
            ]
        };
        let mut reported = Reported {
            reports: [id("a"), id("b")].iter().flat_map(reports).collect(),
            ..Reported::default()
        };
        reported.retain(|run| *run == id("b"));
        assert_eq!(reported.reports, BTreeSet::from(reports(&id("b"))));
    }
}
