//! Files of the node that the runtime or the kubelet mounts into a container, such as `/etc/resolv.conf`.
//!
//! Such a file is opened at its path on the node, which the tables of mounts contain, and not through the container's
//! root: a lookup there could end in a file system that the container serves. The container controls only the content,
//! if the mount is writable.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use usher_core::{base::id::Pid, node::mountinfo};

use super::proc::{self, ProcRoot};

/// The process in the host's own namespaces.
const HOST_INIT: Pid = Pid(1);
/// Limit; such files are shorter.
const LIMIT: u64 = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading the mounts")]
    Mounts(#[from] proc::Error),
    #[error("process {} has ended", .0.0)]
    Ended(Pid),
    #[error("the mounts of the node do not lead to it")]
    Hidden,
    #[error("opening the host's root directory {path:?}")]
    Root { path: PathBuf, source: io::Error },
    #[error("reading {path:?} of the node")]
    Read { path: PathBuf, source: io::Error },
}

/// The text of the file that is mounted at `point` in the mount namespace of a process, up to 64 KiB; None without such
/// a mount. Check afterwards that `pid` is still the same process. Needs `CAP_SYS_PTRACE`.
pub fn read(
    proc: &ProcRoot,
    host_root: &Path,
    pid: Pid,
    point: &Path,
) -> Result<Option<String>, Error> {
    let mounts = proc.mountinfo(pid)?.ok_or(Error::Ended(pid))?;
    let Some(origin) = mountinfo::origin(&mounts, point) else {
        return Ok(None);
    };
    let of_host = proc.mountinfo(HOST_INIT)?.ok_or(Error::Ended(HOST_INIT))?;
    let root = File::options()
        .read(true)
        .custom_flags((OFlag::O_PATH | OFlag::O_DIRECTORY).bits())
        .open(host_root)
        .map_err(|source| Error::Root {
            path: host_root.to_owned(),
            source,
        })?;
    let mut failed = Error::Hidden;
    for path in mountinfo::paths_of(&of_host, &origin) {
        match text(&root, &path) {
            Ok(text) => return Ok(Some(text)),
            Err(source) => failed = Error::Read { path, source },
        }
    }
    Err(failed)
}

fn text(root: &File, path: &Path) -> io::Result<String> {
    // Paths in a table of mounts contain no links, so a path with a link is not the mounted file.
    let resolve = ResolveFlag::RESOLVE_IN_ROOT
        | ResolveFlag::RESOLVE_NO_MAGICLINKS
        | ResolveFlag::RESOLVE_NO_SYMLINKS;
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(resolve);
    let file = File::from(openat2(root.as_fd(), path, how)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LIMIT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
