//! Processes by pidfd: an identity that cannot be reused, the moment of exit,
//! and the exit status of processes that are not our children.
//!
//! [pidfd_open(2)](https://man7.org/linux/man-pages/man2/pidfd_open.2.html)
//! (Linux 5.3) and the ioctl `PIDFD_GET_INFO` with `PIDFD_INFO_EXIT`
//! (Linux 6.15,
//! [include/uapi/linux/pidfd.h](https://github.com/torvalds/linux/blob/v6.15/include/uapi/linux/pidfd.h)).
//!
//! A pidfd becomes readable when its process is a zombie, and reports a hang-up
//! when the parent has reaped it; only then is the exit status to be had. What
//! can go wrong: the process is gone before the pidfd is opened (`ESRCH`), and
//! older kernels do not know the ioctl. Written by hand because nix has none of
//! these calls.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use nix::errno::Errno;
use tokio::io::unix::AsyncFd;
use usher_core::{base::id::Pid, pod::exit_status::ExitStatus};

use crate::pods::readiness;

/// A process could not be opened or signalled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("pidfd_open of process {pid}")]
    Open { pid: Pid, source: io::Error },
    /// The event loop did not take the pidfd.
    #[error("watching the pidfd of process {pid}")]
    Watch { pid: Pid, source: io::Error },
    #[error("pidfd_send_signal {signal} to process {pid}")]
    Signal {
        pid: Pid,
        /// The signal's number.
        signal: i32,
        source: io::Error,
    },
}

impl Error {
    /// Whether it says that the process has ended.
    pub fn is_gone(&self) -> bool {
        let (Self::Open { source, .. } | Self::Watch { source, .. } | Self::Signal { source, .. }) =
            self;
        source.raw_os_error() == Some(libc::ESRCH)
    }
}

/// An open process. It stays the same process, ended or not, for as long as
/// this lives.
#[derive(Debug)]
pub struct Pidfd {
    pid: Pid,
    fd: AsyncFd<OwnedFd>,
}

impl Pidfd {
    /// Opens a process, on a thread with a tokio runtime.
    ///
    /// Whether `pid` still is the process that is meant has to be checked
    /// after this, not before.
    ///
    /// # Errors
    /// [`Error::Open`] when there is no such process, among others.
    pub fn open(pid: Pid) -> Result<Self, Error> {
        let fd = pidfd_open(pid).map_err(|source| Error::Open { pid, source })?;
        let fd = readiness::register(fd).map_err(|source| Error::Watch { pid, source })?;
        Ok(Self { pid, fd })
    }

    /// The process's number; what it means is certain only while
    /// [`Self::is_alive`].
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether the process has not ended, not even as a zombie.
    pub fn is_alive(&self) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd;
        let mut fds = [PollFd::new(self.fd.get_ref().as_fd(), PollFlags::POLLIN)];
        // An error here can only be EINTR or ENOMEM; "ended" is the answer
        // after which nothing is done to the process.
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0))
    }

    /// Waits until the process has ended.
    pub async fn exited(&self) {
        loop {
            match self.fd.readable().await {
                // The readiness is left set, `reaped` looks at it again.
                Ok(guard) if guard.ready().is_readable() => return,
                Ok(mut guard) => guard.clear_ready(),
                // The event loop is shutting down.
                Err(_shutdown) => return,
            }
        }
    }

    /// Waits until the parent has reaped the process and says how it ended;
    /// None where the kernel does not tell.
    pub async fn reaped(&self) -> Option<ExitStatus> {
        loop {
            let Ok(mut guard) = self.fd.readable().await else {
                return None;
            };
            // Cleared first: a hang-up that comes after this is a new edge.
            let hung_up = guard.ready().is_read_closed();
            guard.clear_ready();
            match exit_status(self.fd.get_ref()) {
                Told::Status(status) => return Some(status),
                Told::Never => return None,
                Told::WaitReason if hung_up => return None,
                Told::WaitReason => {}
            }
        }
    }

    /// How the process ended, if it has been reaped and the kernel tells. Does not wait.
    pub fn status(&self) -> Option<ExitStatus> {
        match exit_status(self.fd.get_ref()) {
            Told::Status(status) => Some(status),
            Told::WaitReason | Told::Never => None,
        }
    }

    /// Sends a signal. To a process that has been reaped it cannot go any
    /// more, whoever has its number now.
    ///
    /// # Errors
    /// [`Error::Signal`]; [`Error::is_gone`] when it had ended.
    #[expect(unsafe_code, reason = "pidfd_send_signal has no wrapper in nix")]
    pub fn signal(&self, signal: nix::sys::signal::Signal) -> Result<(), Error> {
        let signal = signal as i32;
        // SAFETY: plain numbers and a null siginfo, which the call allows; the
        // descriptor is open.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.fd.get_ref().as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        if result == 0 {
            return Ok(());
        }
        Err(Error::Signal {
            pid: self.pid,
            signal,
            source: io::Error::last_os_error(),
        })
    }
}

#[expect(unsafe_code, reason = "pidfd_open has no wrapper in nix")]
fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    // Without flags: those before 5.10 refuse all of them, and what is only polled never blocks.
    // SAFETY: plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) };
    let fd = i32::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for us and nobody
    // else knows it. It is close-on-exec by definition.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
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

/// What the kernel tells of how a process ended.
enum Told {
    Status(ExitStatus),
    /// It has not been reaped, or its status was not kept.
    WaitReason,
    /// This kernel is older than 6.13 and has no such call. Those before 6.9 do not tell of the reap either, so there is
    /// nothing to wait for.
    Never,
}

/// The wait status of a reaped process, where the kernel keeps it.
#[expect(unsafe_code, reason = "an ioctl")]
fn exit_status(fd: &OwnedFd) -> Told {
    const { assert!(size_of::<PidfdInfo>() == 64) };
    let mut info = PidfdInfo {
        mask: PIDFD_INFO_EXIT,
        ..PidfdInfo::default()
    };
    // SAFETY: the descriptor is open, and `info` is a valid, exclusively
    // borrowed struct of the size that is part of the request's number.
    let asked = unsafe { pidfd_get_info(fd.as_raw_fd(), &raw mut info) };
    match asked {
        Err(Errno::ENOTTY) => Told::Never,
        Ok(_) if info.mask & PIDFD_INFO_EXIT != 0 => {
            Told::Status(ExitStatus::from_wait_status(info.exit_code))
        }
        _ => Told::WaitReason,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn exit_is_seen_before_the_reap_and_the_status_after_it() {
        let mut child = Command::new("sh")
            .args(["-c", "read line; exit 42"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell");
        let pidfd = Pidfd::open(Pid(child.id().try_into().unwrap())).unwrap();
        assert!(pidfd.is_alive());
        // Not even O_NONBLOCK, which kernels before 5.10 refuse.
        // https://github.com/torvalds/linux/commit/4da9af0014b51c8b015ed8c622440ef28912efe6
        let flags = nix::fcntl::fcntl(&pidfd.fd, nix::fcntl::FcntlArg::F_GETFL).unwrap();
        assert_eq!(flags & libc::O_NONBLOCK, 0);
        drop(child.stdin.take());
        pidfd.exited().await;
        assert!(!pidfd.is_alive());
        child.wait().unwrap();
        // Kernels before 6.15 do not tell.
        let status = pidfd.reaped().await;
        assert!(
            matches!(status, Some(ExitStatus::Code(42)) | None),
            "{status:?}"
        );
        let term = nix::sys::signal::Signal::SIGTERM;
        assert!(pidfd.signal(term).unwrap_err().is_gone());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn no_such_process() {
        let error = Pidfd::open(Pid(i32::MAX)).unwrap_err();
        assert!(error.is_gone(), "{error:?}");
    }
}
