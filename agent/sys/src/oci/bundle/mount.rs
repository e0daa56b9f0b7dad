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
use rustix::fs::{AtFlags, Statx, StatxAttributes, StatxFlags, statx};
use tokio::io::{Interest, unix::AsyncFd};

use crate::pods::readiness;

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
    let there = status(bundle, ROOT, AtFlags::SYMLINK_NOFOLLOW);
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
pub fn root(bundle: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(bundle, ROOT, flags, Mode::empty())?)
}

/// Mount id of an open file.
pub(super) fn of_file(fd: impl AsFd) -> io::Result<u64> {
    let there = status(fd.as_fd(), c"", AtFlags::EMPTY_PATH)?;
    if there.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(there.stx_mnt_id)
}

/// Mount of a path below an open directory ([statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html)): its id, as in
/// `mountinfo`, and whether the path is its root (Linux 5.8).
fn status(dir: BorrowedFd<'_>, path: &CStr, flags: AtFlags) -> io::Result<Statx> {
    // The call must not cause a request to a remote server. statx is the only stat call that can avoid it.
    let flags = flags | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    Ok(statx(dir, path, flags, StatxFlags::MNT_ID)?)
}

/// Whether the path is the root of a mount; None if the kernel does not report it.
fn is_root(there: &Statx) -> Option<bool> {
    let flag = StatxAttributes::MOUNT_ROOT;
    let is_known = there.stx_attributes_mask.contains(flag);
    is_known.then_some(there.stx_attributes.contains(flag))
}
