//! The resources of the agent and the machine without pods.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;
use usher_tests::synthetic::process;

use crate::lane::Stage;

/// The time in which a pod's resources are released.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// A connection to the kubelet, two to the API server, and one that is being closed may be open or not.
const DESCRIPTORS: usize = 4;
/// The permitted growth since the first pods; timelines and allocators grow for a while.
const GROWTH_KIB: u64 = 12 * 1024;
/// The permitted number of additional files in the run directory.
const FILES: usize = 12;

/// A snapshot of the resources.
#[derive(Debug, Clone)]
pub(crate) struct Census {
    pub(crate) pid: u32,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    pub(crate) resident_kib: u64,
    /// Of the agent and of the machine.
    pub(crate) networks: (BTreeSet<String>, usize),
    pub(crate) files: usize,
    pub(crate) pods: f64,
    pub(crate) held: f64,
}

/// Takes a snapshot.
pub(crate) fn count(stage: &Stage) -> Census {
    let files = std::fs::read_dir(stage.node.run_dir());
    stage.with(|agent| {
        let pid = agent.pid();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        let metrics = |name| agent.metric(name, "");
        Census {
            pid,
            pods: metrics("usher_pods"),
            held: metrics("usher_held_starts"),
            descriptors: agent.open_descriptors(),
            threads: tasks.map_or(0, Iterator::count),
            resident_kib: agent.usage().resident_kib,
            networks: (process::held_networks(pid), process::all_networks().len()),
            files: files.map_or(0, Iterator::count),
        }
    })
}

impl Census {
    /// The excess over the first snapshot.
    fn wrong(&self, first: &Self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |is_wrong: bool, what: String| {
            if is_wrong {
                wrong.push(what);
            }
        };
        check(self.pods > 0.5, format!("usher_pods is {}", self.pods));
        check(
            self.held > 0.5,
            format!("usher_held_starts is {}", self.held),
        );
        let (now, then) = (self.descriptors, first.descriptors);
        check(
            now > then + DESCRIPTORS,
            format!("{now} descriptors, {then} at first"),
        );
        let (now, then) = (self.threads, first.threads);
        check(now > then + 1, format!("{now} threads, {then} at first"));
        let (now, then) = (self.resident_kib, first.resident_kib);
        check(
            now > then + GROWTH_KIB,
            format!("{now} KiB resident, {then} at first"),
        );
        let (held, all) = &self.networks;
        check(
            !held.is_empty(),
            format!("network namespaces held: {held:?}"),
        );
        let then = first.networks.1;
        check(
            *all > then,
            format!("{all} network namespaces on the machine, {then} at first"),
        );
        check(
            self.files > first.files + FILES,
            format!("{} files in the run directory", self.files),
        );
        wrong
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        json!({
            "pid": self.pid,
            "descriptors": self.descriptors,
            "threads": self.threads,
            "residentKiB": self.resident_kib,
            "networks": self.networks.1,
            "files": self.files,
        })
    }
}

/// Waits until there is no excess; returns the last one.
pub(crate) fn settled(stage: &Stage, first: &Census) -> (Census, Vec<String>) {
    let end = Instant::now() + PATIENCE;
    loop {
        let census = count(stage);
        let wrong = census.wrong(first);
        if wrong.is_empty() || Instant::now() >= end {
            return (census, wrong);
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_is_reported() {
        let first = Census {
            pid: 1,
            descriptors: 30,
            threads: 4,
            resident_kib: 20_000,
            networks: (BTreeSet::new(), 1),
            files: 6,
            pods: 0.0,
            held: 0.0,
        };
        assert!(first.wrong(&first).is_empty());
        let spoilt: [fn(&mut Census); 7] = [
            |census| census.descriptors += 9,
            |census| census.threads += 2,
            |census| census.resident_kib += 20_000,
            |census| census.networks.1 += 1,
            |census| census.networks.0.extend(["net:[1]".to_owned()]),
            |census| census.pods = 1.0,
            |census| census.files += 20,
        ];
        for spoil in spoilt {
            let mut census = first.clone();
            spoil(&mut census);
            assert_eq!(census.wrong(&first).len(), 1, "{census:?}");
        }
    }
}
