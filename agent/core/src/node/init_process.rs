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
    // Processes may have the same tick, and pids may be reused. A nested namespace has longer lists than its creator's.
    let oldest = candidates.iter().min_by_key(|process| {
        let depth = process.nspid.len();
        (
            process.start_ticks,
            depth,
            !process.is_pid_one(),
            process.pid,
        )
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

    fn candidate(pid: i32, nspid: &[i32], start_ticks: u64) -> Candidate {
        Candidate {
            pid: Pid(pid),
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
        let at_once = [candidate(12, &[12, 20, 1], 1), candidate(60, &[60, 11], 1)];
        assert_eq!(init_process(&at_once), expected);
        let reused = [candidate(300, &[300, 7], 1), candidate(900, &[900, 1], 1)];
        let expected = Choice {
            pid: Pid(900),
            certain: true,
        };
        assert_eq!(init_process(&reused), Some(expected));
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
