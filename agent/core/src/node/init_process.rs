//! Selects the init process of a container.

use std::{cmp::Reverse, collections::BTreeSet};

use crate::base::id::Pid;

/// A process of a container's cgroup, with the facts that the selection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub pid: Pid,
    pub parent: Pid,
    /// Its pid in each pid namespace that it is in, outermost first (`NSpid` of `/proc/<pid>/status`).
    pub nspid: Vec<i32>,
    /// Start in clock ticks since boot (field 22 of `/proc/<pid>/stat`).
    pub start_ticks: u64,
}

impl Candidate {
    /// Whether it has pid 1 in a pid namespace other than the host's.
    pub fn is_pid_one(&self) -> bool {
        self.nspid.len() > 1 && self.nspid.last() == Some(&1)
    }
}

/// The init process among the processes of a container's cgroup: the oldest one. Exec'd probes and hooks are younger,
/// and so is pid 1 of a pid namespace that the container itself created.
///
/// That selection is correct only after the runtime's own short-lived stages have ended. If the oldest process is pid 1
/// of a pid namespace, they have. Where the pod shares a pid namespace (`shareProcessNamespace`, `hostPID`), the caller
/// must check that: see [`Choice::certain`].
pub fn init_process(candidates: &[Candidate]) -> Option<Choice> {
    let first = candidates.iter().map(|process| process.start_ticks).min()?;
    let oldest = || {
        candidates
            .iter()
            .filter(|process| process.start_ticks == first)
    };
    // Several may have started within this tick. A process that one of them has forked is not the init process. The
    // runtime's process of an exec is no child of it either, but has entered the container from the node's pid namespace,
    // so it has a shorter list of pids.
    let pids: BTreeSet<Pid> = oldest().map(|process| process.pid).collect();
    let oldest = oldest()
        .filter(|process| !pids.contains(&process.parent))
        .min_by_key(|process| {
            let depth = Reverse(process.nspid.len());
            (!process.is_pid_one(), depth, process.pid)
        })?;
    Some(Choice {
        pid: oldest.pid,
        certain: oldest.is_pid_one(),
    })
}

/// The selected process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub pid: Pid,
    /// True for pid 1 of a pid namespace. Otherwise it may be a stage of the runtime.
    pub certain: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child of the runtime's shim.
    fn candidate(pid: i32, nspid: &[i32], start_ticks: u64) -> Candidate {
        child(2, pid, nspid, start_ticks)
    }

    fn child(parent: i32, pid: i32, nspid: &[i32], start_ticks: u64) -> Candidate {
        Candidate {
            pid: Pid(pid),
            parent: Pid(parent),
            nspid: nspid.to_vec(),
            start_ticks,
        }
    }

    #[test]
    fn oldest_pid_one_is_certain() {
        let [stage, init, probe] = [
            candidate(40, &[40, 7], 1),
            candidate(50, &[50, 1], 9),
            candidate(60, &[60, 12], 10),
        ];
        let choice = |pid, certain| {
            let pid = Pid(pid);
            Some(Choice { pid, certain })
        };
        // While a stage of the runtime lives, the caller has to try again.
        let all = [stage, init, probe];
        assert_eq!(init_process(&all), choice(40, false));
        assert_eq!(init_process(&all[1..]), choice(50, true));
    }

    /// The process with pid 1 is in a pid namespace that the container created, as browsers and sandboxes do.
    #[test]
    fn nested_pid_one_is_not_the_init_process() {
        let expected = Some(Choice {
            pid: Pid(60),
            certain: false,
        });
        let shared = [candidate(60, &[60, 11], 1), candidate(90, &[90, 20, 1], 9)];
        assert_eq!(init_process(&shared), expected);
        let of_host = [candidate(60, &[60], 1), candidate(90, &[90, 1], 9)];
        assert_eq!(init_process(&of_host), expected);
        // Within a tick, and with a pid that was used before.
        let at_once = [child(60, 12, &[12, 20, 1], 1), candidate(60, &[60, 11], 1)];
        assert_eq!(init_process(&at_once), expected);
        let reused = [child(900, 300, &[300, 7], 1), candidate(900, &[900, 1], 1)];
        assert_eq!(init_process(&reused).unwrap().pid, Pid(900));
    }

    /// The runtime's process of a hook or probe, which has entered the container's mount namespace.
    #[test]
    fn process_of_an_exec_is_not_the_init_process() {
        for nspid in [&[60, 1][..], &[60, 11], &[60]] {
            let exec = candidate(70, &[70], 1);
            let choice = init_process(&[exec, candidate(60, nspid, 1)]).unwrap();
            assert_eq!(choice.pid, Pid(60), "{nspid:?}");
        }
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
