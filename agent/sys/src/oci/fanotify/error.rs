//! Errors of a fanotify group.

use std::io;

use nix::errno::Errno;
use usher_core::base::id::Pid;

/// A group could not be opened or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `CAP_SYS_ADMIN` is missing.
    #[error("fanotify is not permitted")]
    Permission(#[source] io::Error),
    /// The user has reached the limit of groups (`fs.fanotify.max_user_groups`, 128 by default; for uid 0 it applies to
    /// the whole machine), or the process its limit of descriptors.
    #[error("no fanotify group is left for this user")]
    Groups(#[source] io::Error),
    /// The kernel has no fanotify, or no permission events (`CONFIG_FANOTIFY_ACCESS_PERMISSIONS`, Linux 5.0).
    #[error("the kernel does not ask before an exec")]
    Unsupported(#[source] io::Error),
    /// The kernel denied one exec, because it could not open the program for this process. The group is intact.
    #[error("the kernel denied an exec, because it could not open the program for the holder")]
    Denied {
        /// The process that called `execve`; None before Linux 6.13.
        pid: Option<Pid>,
        source: io::Error,
    },
    #[error("{call} on a fanotify group")]
    Call {
        call: &'static str,
        source: io::Error,
    },
}

/// Maps the errors of opening a group.
pub(in crate::oci) fn failed(call: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| {
        let source = errno.into();
        match errno {
            Errno::EPERM => Error::Permission(source),
            Errno::EMFILE => Error::Groups(source),
            Errno::ENOSYS | Errno::EINVAL => Error::Unsupported(source),
            _ => Error::Call { call, source },
        }
    }
}

pub(in crate::oci) fn call(call: &'static str, errno: Errno) -> Error {
    Error::Call {
        call,
        source: errno.into(),
    }
}
