//! How a container's init process ended.

use std::fmt;

/// How a container's init process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    /// It called exit with this code.
    Code(u8),
    Signal(u8),
}

impl ExitStatus {
    /// Converts a wait status of the kernel (`0x0700` is exit 7, `9` is SIGKILL; the core-dump bit is dropped).
    pub const fn from_wait_status(status: i32) -> Self {
        let signal = (status & 0x7f) as u8;
        if signal == 0 {
            Self::Code(((status >> 8) & 0xff) as u8)
        } else {
            Self::Signal(signal)
        }
    }

    /// The code that Kubernetes shows: 128 + n for signal n, as runtimes report it.
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

/// Whether the process that ended may have been the runtime's, before it became the image's program. `executed` is
/// whether usher observed the program. If both are unknown, the result is true: before Linux 6.15 the kernel does not
/// report the status of a process that was reaped at once.
///
/// A runtime that restarts kills the containers that it had created but not started. A container in creation exits on
/// its own when the runtime exits: runc's with 1, from 1.2 on with 255
/// ([init](https://github.com/opencontainers/runc/blob/v1.2.0/libcontainer/init_linux.go)), or with 2 like every Go
/// program that SIGTERM or a failure ends.
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

    #[test]
    fn processes_that_may_belong_to_the_runtime() {
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
