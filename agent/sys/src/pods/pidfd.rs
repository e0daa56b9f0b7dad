//! Processes by pidfd. A pidfd is never reused, reports the exit, and has the exit status of processes that are not
//! children of this one.
//!
//! [pidfd_open(2)](https://man7.org/linux/man-pages/man2/pidfd_open.2.html) (Linux 5.3) and the ioctl `PIDFD_GET_INFO`
//! with `PIDFD_INFO_EXIT` (Linux 6.15,
//! [include/uapi/linux/pidfd.h](https://github.com/torvalds/linux/blob/v6.15/include/uapi/linux/pidfd.h)).
//!
//! A pidfd becomes readable when its process is a zombie, and reports a hang-up when the parent has reaped the process;
//! then the exit status is available. What can go wrong: the process is reaped before the pidfd is opened (`ESRCH`),
//! and older kernels lack the ioctl.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
pub use rustix::process::Signal;
use rustix::process::{self, PidfdFlags};
use tokio::io::unix::AsyncFd;
use usher_core::{base::id::Pid, pod::exit_status::ExitStatus};

use crate::pods::readiness;

/// A process could not be opened or signalled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("pidfd_open of process {pid}")]
    Open { pid: Pid, source: io::Error },
    #[error("watching the pidfd of process {pid}")]
    Watch { pid: Pid, source: io::Error },
    #[error("pidfd_send_signal {signal} to process {pid}")]
    Signal {
        pid: Pid,
        signal: i32,
        source: io::Error,
    },
}

impl Error {
    /// Whether the process has exited.
    pub fn is_gone(&self) -> bool {
        let (Self::Open { source, .. } | Self::Watch { source, .. } | Self::Signal { source, .. }) =
            self;
        source.raw_os_error() == Some(libc::ESRCH)
    }
}

/// An open process. The value refers to the same process for its whole lifetime, even after the exit.
#[derive(Debug)]
pub struct Pidfd {
    pid: Pid,
    fd: AsyncFd<OwnedFd>,
}

impl Pidfd {
    /// Opens a process. Requires a tokio runtime on the thread. Check afterwards, not before, that `pid` is still that
    /// process.
    ///
    /// # Errors
    /// [`Error::Open`], for example if there is no such process.
    pub fn open(pid: Pid) -> Result<Self, Error> {
        let fd = open(pid).map_err(|error| Error::Open {
            pid,
            source: error.into(),
        })?;
        let fd = readiness::register(fd).map_err(|source| Error::Watch { pid, source })?;
        Ok(Self { pid, fd })
    }

    /// The pid, which may be reused unless [`Self::is_alive`].
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether the process runs and is not a zombie.
    pub fn is_alive(&self) -> bool {
        is_alive(self.as_fd())
    }

    /// Waits until the process has exited.
    pub async fn exited(&self) {
        loop {
            match self.fd.readable().await {
                // Does not clear the readiness, because `reaped` checks it again.
                Ok(guard) if guard.ready().is_readable() => return,
                Ok(mut guard) => guard.clear_ready(),
                // The event loop is shutting down.
                Err(_shutdown) => return,
            }
        }
    }

    /// Waits until the parent has reaped the process, and returns the exit status; None if the kernel does not report
    /// it.
    pub async fn reaped(&self) -> Option<ExitStatus> {
        loop {
            let Ok(mut guard) = self.fd.readable().await else {
                return None;
            };
            // Cleared before the check, so that a later hang-up is a new edge.
            let hung_up = guard.ready().is_read_closed();
            guard.clear_ready();
            match exit_status(self.fd.get_ref()) {
                ExitInfo::Status(status) => return Some(status),
                ExitInfo::Unsupported => return None,
                ExitInfo::Pending if hung_up => return None,
                ExitInfo::Pending => {}
            }
        }
    }

    /// The exit status, if the process has been reaped and the kernel reports it. Does not wait.
    pub fn status(&self) -> Option<ExitStatus> {
        match exit_status(self.fd.get_ref()) {
            ExitInfo::Status(status) => Some(status),
            ExitInfo::Pending | ExitInfo::Unsupported => None,
        }
    }

    /// Sends a signal. After a reap, a process that reuses the pid does not receive it.
    ///
    /// # Errors
    /// [`Error::Signal`]; [`Error::is_gone`] if the process has exited.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        process::pidfd_send_signal(&self.fd, signal).map_err(|error| Error::Signal {
            pid: self.pid,
            signal: signal.as_raw(),
            source: error.into(),
        })
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.get_ref().as_fd()
    }
}

/// Whether the process of a pidfd runs and is not a zombie.
pub fn is_alive(pidfd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::POLLIN)];
    // An error can only be EINTR or ENOMEM. "Exited" is the safe result, because no action follows.
    matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0))
}

fn open(pid: Pid) -> Result<OwnedFd, rustix::io::Errno> {
    // The kernel rejects pids below 1 in the same way.
    let pid = process::Pid::from_raw(pid.0.max(0)).ok_or(rustix::io::Errno::INVAL)?;
    // No flags: kernels before 5.10 reject all of them, and a pidfd that is only polled never blocks.
    process::pidfd_open(pid, PidfdFlags::empty())
}

/// `struct pidfd_info` in its first version.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroupid: u64,
    ids: [u32; 11],
    exit_code: i32,
}

const PIDFD_INFO_EXIT: u64 = 1 << 3;
nix::ioctl_readwrite!(pidfd_get_info, 0xFF, 11, PidfdInfo);

/// Result of the request for an exit status.
enum ExitInfo {
    Status(ExitStatus),
    /// The process has not been reaped, or its status was not kept.
    Pending,
    /// The kernel is older than 6.13 and lacks the call. Kernels before 6.9 do not report the reap either, so waiting
    /// is useless.
    Unsupported,
}

/// The wait status of a reaped process, if the kernel keeps it.
#[expect(unsafe_code, reason = "an ioctl")]
fn exit_status(fd: &OwnedFd) -> ExitInfo {
    const { assert!(size_of::<PidfdInfo>() == 64) };
    let mut info = PidfdInfo {
        mask: PIDFD_INFO_EXIT,
        ..PidfdInfo::default()
    };
    // SAFETY: the descriptor is open, and `info` is a valid, exclusively borrowed struct of the size in the request's
    // number.
    let result = unsafe { pidfd_get_info(fd.as_raw_fd(), &raw mut info) };
    match result {
        Err(Errno::ENOTTY) => ExitInfo::Unsupported,
        Ok(_) if info.mask & PIDFD_INFO_EXIT != 0 => {
            ExitInfo::Status(ExitStatus::from_wait_status(info.exit_code))
        }
        _ => ExitInfo::Pending,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn exit_is_reported_before_the_reap_and_the_status_after_it() {
        let mut child = Command::new("sh")
            .args(["-c", "read line; exit 42"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell");
        let pidfd = Pidfd::open(Pid(child.id().try_into().unwrap())).unwrap();
        assert!(pidfd.is_alive());
        // Without O_NONBLOCK, which kernels before 5.10 reject.
        // https://github.com/torvalds/linux/commit/4da9af0014b51c8b015ed8c622440ef28912efe6
        let flags = nix::fcntl::fcntl(&pidfd.fd, nix::fcntl::FcntlArg::F_GETFL).unwrap();
        assert_eq!(flags & libc::O_NONBLOCK, 0);
        drop(child.stdin.take());
        pidfd.exited().await;
        assert!(!pidfd.is_alive());
        child.wait().unwrap();
        // Kernels before 6.15 do not report the exit status.
        let status = pidfd.reaped().await;
        assert!(
            matches!(status, Some(ExitStatus::Code(42)) | None),
            "{status:?}"
        );
        let term = Signal::TERM;
        assert!(pidfd.signal(term).unwrap_err().is_gone());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn no_such_process() {
        let error = Pidfd::open(Pid(i32::MAX)).unwrap_err();
        assert!(error.is_gone(), "{error:?}");
    }
}
