//! What has been said of a pod's sidecars, so that each thing is said once.

use std::collections::BTreeSet;

use crate::base::id::ContainerId;

#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) finished: bool,
    pub(crate) left_alone: bool,
    /// That an app failed: there is nothing left to spoil.
    pub(crate) failed: bool,
    pub(crate) would_quit: BTreeSet<ContainerId>,
    pub(crate) ended: BTreeSet<ContainerId>,
    /// Runs that were asked with success before usher had to stop.
    pub(crate) asked: BTreeSet<ContainerId>,
    pub(crate) prepared: BTreeSet<ContainerId>,
}

impl Said {
    /// Forgets runs that nobody knows any more.
    pub(crate) fn retain(&mut self, known: impl Fn(&ContainerId) -> bool) {
        let Self {
            would_quit,
            ended,
            asked,
            prepared,
            ..
        } = self;
        for runs in [would_quit, ended, asked, prepared] {
            runs.retain(&known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_nobody_knows_are_forgotten() {
        let id = |digit: &str| ContainerId::parse(&digit.repeat(64)).unwrap();
        let both = BTreeSet::from([id("a"), id("b")]);
        let mut said = Said {
            would_quit: both.clone(),
            ended: both.clone(),
            asked: both.clone(),
            prepared: both,
            ..Said::default()
        };
        said.retain(|known| *known == id("b"));
        for runs in [said.would_quit, said.ended, said.asked, said.prepared] {
            assert_eq!(runs, BTreeSet::from([id("b")]));
        }
    }
}
