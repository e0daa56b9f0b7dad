//! Which process of a container is its init process, and how it ended.

use std::fmt;

use crate::id::Pid;

/// What the choice of a container's init process needs to know of one of the
/// processes in its cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The process.
    pub pid: Pid,
    /// Its pid in each pid namespace that it is in, outermost first (`NSpid`
    /// of `/proc/<pid>/status`).
    pub nspid: Vec<i32>,
    /// Start in clock ticks since boot (field 22 of `/proc/<pid>/stat`).
    pub start_ticks: u64,
}

/// The init process among the processes of a container's cgroup.
///
/// It is the one that is pid 1 in a pid namespace of its own. Where the pod
/// shares one (`shareProcessNamespace`, `hostPID`) nobody is, and it is the
/// oldest process; exec'd probes and hooks are younger. The second choice is
/// only good once the runtime's own short-lived stages are over, which is for
/// the caller to know: see [`Choice::certain`].
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

/// A process, and whether it can be anything else than the init process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The process.
    pub pid: Pid,
    /// True for pid 1 of a pid namespace.
    pub certain: bool,
}

/// How a container's init process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    /// It called exit with this code.
    Code(u8),
    /// A signal ended it.
    Signal(u8),
}

impl ExitStatus {
    /// Takes a wait status as the kernel writes it (`0x0700` is exit 7, `9` is
    /// SIGKILL; the core-dump bit is dropped).
    pub const fn from_wait_status(status: i32) -> Self {
        let signal = (status & 0x7f) as u8;
        if signal == 0 {
            Self::Code(((status >> 8) & 0xff) as u8)
        } else {
            Self::Signal(signal)
        }
    }

    /// The code that Kubernetes shows: 128 + n for signal n, as runtimes
    /// report it.
    pub const fn kubernetes_code(self) -> i32 {
        match self {
            Self::Code(code) => code as i32,
            Self::Signal(signal) => 128 + signal as i32,
        }
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "exit code {code}"),
            Self::Signal(signal) => write!(formatter, "signal {signal}"),
        }
    }
}

/// Whether what ended may have been the runtime's own process and not yet the image's program, by whether it was seen to be
/// that program and by how it ended. Where neither is known it may: before Linux 6.15 nothing tells of one that was reaped
/// at once.
///
/// A runtime that comes back kills what it had created and not started. What it is creating when it goes ends by itself:
/// runc's with 1, from 1.2 on with 255
/// ([init](https://github.com/opencontainers/runc/blob/v1.2.0/libcontainer/init_linux.go)), or with 2 as every Go program
/// that SIGTERM or a failure ends.
pub fn may_be_of_runtime(executed: Option<bool>, status: Option<ExitStatus>) -> bool {
    const KILL: u8 = 9;
    let ends_so = |status| {
        matches!(
            status,
            ExitStatus::Signal(KILL) | ExitStatus::Code(1 | 2 | 255)
        )
    };
    match executed {
        Some(executed) => !executed,
        None => status.is_none_or(ends_so),
    }
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

    #[test]
    fn who_may_have_been_the_runtimes() {
        let killed = Some(ExitStatus::Signal(9));
        let code = |code| Some(ExitStatus::Code(code));
        for (executed, status, expected) in [
            (Some(true), None, false),
            (Some(true), killed, false),
            (Some(false), None, true),
            (Some(false), code(0), true),
            (None, None, true),
            (None, killed, true),
            (None, Some(ExitStatus::Signal(15)), false),
            (None, code(0), false),
            (None, code(1), true),
            (None, code(2), true),
            (None, code(42), false),
            (None, code(255), true),
        ] {
            let may = may_be_of_runtime(executed, status);
            assert_eq!(may, expected, "{executed:?} {status:?}");
        }
    }

    #[test]
    fn wait_statuses() {
        assert_eq!(ExitStatus::from_wait_status(10752), ExitStatus::Code(42));
        assert_eq!(ExitStatus::from_wait_status(0), ExitStatus::Code(0));
        assert_eq!(ExitStatus::from_wait_status(9), ExitStatus::Signal(9));
        assert_eq!(ExitStatus::from_wait_status(0x8b), ExitStatus::Signal(11));
        assert_eq!(ExitStatus::Signal(9).kubernetes_code(), 137);
    }
}
