//! Selects the init process of a container.

use crate::base::id::Pid;

/// A process of a container's cgroup, with the facts that the selection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub pid: Pid,
    /// Its pid in each pid namespace that it is in, outermost first (`NSpid` of `/proc/<pid>/status`).
    pub nspid: Vec<i32>,
    /// Start in clock ticks since boot (field 22 of `/proc/<pid>/stat`).
    pub start_ticks: u64,
}

/// The init process among the processes of a container's cgroup.
///
/// The init process has pid 1 in its own pid namespace. Where the pod shares a pid namespace
/// (`shareProcessNamespace`, `hostPID`), no process has, and the oldest process is selected; exec'd probes and hooks
/// are younger. That selection is correct only after the runtime's own short-lived stages have ended, which the
/// caller must check: see [`Choice::certain`].
pub fn init_process(candidates: &[Candidate]) -> Option<Choice> {
    let first = candidates
        .iter()
        .filter(|process| process.nspid.len() > 1 && process.nspid.last() == Some(&1))
        .min_by_key(|process| (process.start_ticks, process.pid));
    if let Some(process) = first {
        return Some(Choice {
            pid: process.pid,
            certain: true,
        });
    }
    candidates
        .iter()
        .min_by_key(|process| (process.start_ticks, process.pid))
        .map(|process| Choice {
            pid: process.pid,
            certain: false,
        })
}

/// The selected process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub pid: Pid,
    /// True for pid 1 of a pid namespace.
    pub certain: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(pid: i32, nspid: &[i32], start_ticks: u64) -> Candidate {
        Candidate {
            pid: Pid(pid),
            nspid: nspid.to_vec(),
            start_ticks,
        }
    }

    #[test]
    fn pid_one_wins_over_age() {
        let processes = [
            candidate(40, &[40, 7], 1),
            candidate(50, &[50, 1], 9),
            candidate(60, &[60, 12], 10),
        ];
        let expected = Choice {
            pid: Pid(50),
            certain: true,
        };
        assert_eq!(init_process(&processes), Some(expected));
    }

    #[test]
    fn oldest_in_a_shared_namespace() {
        let processes = [candidate(61, &[61, 12], 10), candidate(60, &[60, 11], 10)];
        let expected = Choice {
            pid: Pid(60),
            certain: false,
        };
        assert_eq!(init_process(&processes), Some(expected));
        assert_eq!(init_process(&[]), None);
        // The machine's own init is pid 1 as well, but of the host's namespace.
        assert!(!init_process(&[candidate(1, &[1], 0)]).unwrap().certain);
    }
}
