//! The mounts of a container's process.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use usher_core::{base::id::Pid, node::mountinfo};

use super::mount;
use crate::pods::{proc::ProcRoot, reads::ALL_MOUNTS};

/// Whether a process executes a file on its own mounts. The runtime's process that becomes the container's process does
/// not: it executes a copy in memory, or a file of the host. True without an open if the file may be on a server, which
/// the pod's owner could stop. None if the mounts are longer than `limit`, unless that is the largest.
///
/// # Errors
/// Those of `/proc`, including those for a process that has exited.
pub fn started(proc: &ProcRoot, pid: Pid, limit: usize) -> io::Result<Option<bool>> {
    let program = proc.path(pid, "exe");
    let Some(mounts) = mounts(proc, pid, limit)? else {
        return Ok(None);
    };
    if mountinfo::may_block(&mounts, &fs::read_link(&program)?) {
        return Ok(Some(true));
    }
    let program = mount::of_file(open(&program)?)?.to_string();
    let mut numbers = mounts.lines().filter_map(|line| line.split(' ').next());
    Ok(Some(numbers.any(|number| number == program)))
}

/// The mounts of a process that may contain programs, except its root; open with `O_PATH`. Skips mounts that cannot be
/// opened or have been replaced. None as in [`started`].
///
/// # Errors
/// Those of `/proc`, including those for a process that has exited.
pub fn volumes(proc: &ProcRoot, pid: Pid, limit: usize) -> io::Result<Option<Vec<OwnedFd>>> {
    let Some(mounts) = mounts(proc, pid, limit)? else {
        return Ok(None);
    };
    let all = mountinfo::executable(&mounts);
    if all.is_empty() {
        // Also with a root that may block an open.
        return Ok(Some(Vec::new()));
    }
    let root = OwnedFd::from(open(&proc.path(pid, "root"))?);
    let volumes = all.into_iter().filter_map(|(number, path)| {
        let fd = below(&root, &path)?;
        (mount::of_file(&fd).ok()? == number).then_some(fd)
    });
    Ok(Some(volumes.collect()))
}

/// Opens a mount point as the process itself would. Paths in mountinfo contain no links, so a link would be an attempt
/// to redirect the open.
fn below(root: &OwnedFd, path: &Path) -> Option<OwnedFd> {
    let resolve = ResolveFlag::RESOLVE_IN_ROOT
        | ResolveFlag::RESOLVE_NO_MAGICLINKS
        | ResolveFlag::RESOLVE_NO_SYMLINKS;
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC);
    openat2(root.as_fd(), path, how.resolve(resolve)).ok()
}

fn mounts(proc: &ProcRoot, pid: Pid, limit: usize) -> io::Result<Option<String>> {
    match proc.first_mounts(pid, limit) {
        Ok(Some(text)) if text.len() >= limit && limit < ALL_MOUNTS => Ok(None),
        Ok(Some(text)) => Ok(Some(text)),
        Ok(None) => Err(io::ErrorKind::NotFound.into()),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).custom_flags(OFlag::O_PATH.bits());
    options.open(path)
}

/// Whether this process can access the runtime's mounts below `dir`, which may not exist yet. That requires the node's
/// mount namespace, or mount propagation.
pub fn visible(dir: &Path) -> Result<(), String> {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt"));
    if let (Ok(own), Ok(node)) = (namespace("thread-self"), namespace("1"))
        && own == node
    {
        return Ok(());
    }
    let mounts = fs::read(mount::OWN_MOUNTS);
    let mounts = mounts.map_err(|error| format!("reading {}: {error}", mount::OWN_MOUNTS))?;
    let mounts = String::from_utf8_lossy(&mounts);
    match mountinfo::propagates(&mounts, &there(dir)) {
        Some(true) => Ok(()),
        Some(false) => Err(format!(
            "the mount with {} is private: its mountPropagation has to be HostToContainer",
            dir.display()
        )),
        None => Err(format!("no mount has {}", dir.display())),
    }
}

/// The nearest existing ancestor of a path, without links.
fn there(dir: &Path) -> PathBuf {
    let found = dir.ancestors().find_map(|path| path.canonicalize().ok());
    found.unwrap_or_else(|| PathBuf::from("/"))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::{ProcRoot, started};
    use crate::pods::reads::LONG_MOUNTS;
    use usher_core::base::id::Pid;

    /// An open would fail: the file does not exist.
    #[test]
    fn program_on_a_server_is_not_opened() {
        let proc = tempfile::tempdir().unwrap();
        let process = proc.path().join("7");
        fs::create_dir(&process).unwrap();
        symlink("/usher-test-data/program", process.join("exe")).unwrap();
        let is_started = |kind: &str| {
            let mounts = format!(
                "1 0 0:1 / / rw - overlay overlay rw\n2 1 0:2 / /usher-test-data rw - {kind} server:/ rw\n"
            );
            fs::write(process.join("mountinfo"), mounts).unwrap();
            let proc = ProcRoot::new(proc.path());
            started(&proc, Pid(7), LONG_MOUNTS).map_err(|error| error.kind())
        };
        assert_eq!(is_started("nfs4"), Ok(Some(true)));
        assert_eq!(is_started("ext4"), Err(std::io::ErrorKind::NotFound));
    }
}
