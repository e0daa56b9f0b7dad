//! The root file system of a bundle, and changes of mounts.

use std::{
    ffi::CStr,
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use nix::{
    fcntl::{OFlag, openat},
    sys::{
        stat::Mode,
        statfs::{OVERLAYFS_SUPER_MAGIC, fstatfs},
    },
};
use tokio::io::{Interest, unix::AsyncFd};

use crate::pods::{readiness, statx};

/// The calling thread's mounts: it may have a mount namespace of its own.
pub(super) const OWN_MOUNTS: &str = "/proc/thread-self/mountinfo";
/// Name of a container's root file system in its bundle.
const ROOT: &CStr = c"rootfs";

/// Watch of the mounts in this thread's mount namespace.
///
/// The kernel reports a change as `EPOLLPRI` and `EPOLLERR`
/// ([proc_pid_mounts(5)](https://man7.org/linux/man-pages/man5/proc_pid_mounts.5.html)).
/// The kernel re-arms the report, so nothing must be read.
#[derive(Debug)]
pub(super) struct Changes(AsyncFd<OwnedFd>);

impl Changes {
    /// Reports changes from now on.
    pub(super) fn open() -> io::Result<Self> {
        let mounts = File::open(OWN_MOUNTS)?;
        readiness::register_for(OwnedFd::from(mounts), Interest::PRIORITY).map(Self)
    }

    /// Cancel safe.
    pub(super) async fn next(&self) -> io::Result<()> {
        self.0.ready(Interest::PRIORITY).await?.clear_ready();
        Ok(())
    }
}

/// Checks the root file system of a bundle; None before the mount. The error is the reason why it cannot be marked.
pub(super) fn of_bundle(bundle: BorrowedFd<'_>) -> Option<Result<(), String>> {
    let there = statx::at(bundle, ROOT, libc::AT_SYMLINK_NOFOLLOW, libc::STATX_MNT_ID);
    match there.map(|there| is_root(&there)) {
        Ok(Some(true)) => {}
        Ok(Some(false)) => return None,
        Ok(None) => {
            return Some(Err(
                "the kernel does not report the mount's ID (statx, Linux 5.8)".to_owned(),
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(Err(format!("statx: {error}"))),
    }
    Some(match root(bundle).and_then(|root| Ok(fstatfs(root)?)) {
        Ok(found) if found.filesystem_type() == OVERLAYFS_SUPER_MAGIC => Ok(()),
        Ok(found) => Err(format!("file system type {:#x}", found.filesystem_type().0)),
        Err(error) => Err(error.to_string()),
    })
}

/// Opens the root file system of a bundle, with `O_PATH`. Close it soon, because the runtime cannot unmount an open
/// file system.
///
/// # Errors
/// Those of open(2).
pub fn root(bundle: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(bundle, ROOT, flags, Mode::empty())?)
}

/// Mount id of an open file.
pub(super) fn of_file(fd: impl AsFd) -> io::Result<u64> {
    let there = statx::at(fd.as_fd(), c"", libc::AT_EMPTY_PATH, libc::STATX_MNT_ID)?;
    if there.stx_mask & libc::STATX_MNT_ID == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(there.stx_mnt_id)
}

/// Whether the path is the root of a mount; None if the kernel does not report it.
fn is_root(there: &libc::statx) -> Option<bool> {
    let flag = u64::from(libc::STATX_ATTR_MOUNT_ROOT.unsigned_abs());
    let is_known = there.stx_attributes_mask & flag != 0;
    is_known.then_some(there.stx_attributes & flag != 0)
}
