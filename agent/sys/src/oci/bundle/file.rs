//! The files of a bundle. Only regular files in the bundle itself are read.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat},
    sys::stat::Mode,
};
use usher_core::{
    base::id::Pid,
    node::bundle::{Bundle, NotABundle, parse},
};

/// The runtime's configuration of the container.
pub(super) const CONFIG: &str = "config.json";
/// The pid of the container's first process. The runtime renames the complete file to this name.
pub(super) const INIT: &str = "init.pid";
/// Limit of a configuration. Usually it has 60 kB; the pod's spec that it is made from has at most 1.5 MiB.
const CONFIG_MAX: u64 = 4 * 1024 * 1024;
/// Limit of a pid's text.
const INIT_MAX: u64 = 16;

/// Opens the bundle, unless its path is a symbolic link.
pub(super) fn bundle(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}

/// The pod and container of the bundle; None while the file is incomplete. The error is for people.
pub(super) fn config(bundle: BorrowedFd<'_>) -> Result<Option<Bundle>, String> {
    let text = match read(bundle, CONFIG, CONFIG_MAX) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(None),
        Err(error) => return Err(format!("reading {CONFIG}: {error}")),
    };
    match parse(&text) {
        Ok(bundle) => Ok(Some(bundle)),
        Err(NotABundle::Incomplete) => Ok(None),
        Err(NotABundle::NotJson(source)) => Err(format!("{CONFIG}: {source}")),
        Err(foreign @ NotABundle::Foreign { .. }) => Err(foreign.to_string()),
    }
}

/// Whether the container has no process yet.
pub(super) fn is_unstarted(bundle: BorrowedFd<'_>) -> bool {
    matches!(read(bundle, INIT, INIT_MAX), Ok(None))
}

/// The first process; None before it exists. The runtime writes its pid before the process executes the program.
pub fn init(bundle: BorrowedFd<'_>) -> Option<Pid> {
    let text = read(bundle, INIT, INIT_MAX).ok()??;
    let number = std::str::from_utf8(&text).ok()?.trim().parse().ok()?;
    (number > 0).then_some(Pid(number))
}

/// The content of a file; None if it does not exist.
fn read(bundle: BorrowedFd<'_>, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
    // O_NONBLOCK, because opening a fifo without a writer would block.
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = match openat(bundle, name, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::ENOENT) => return Ok(None),
        Err(Errno::ELOOP) => return Err(io::Error::other("it is a symbolic link")),
        Err(errno) => return Err(errno.into()),
    };
    let there = file.metadata()?;
    if !there.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = Vec::with_capacity(usize::try_from(there.len().min(most)).unwrap_or_default());
    let length = file.take(most + 1).read_to_end(&mut text)?;
    if length as u64 > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(Some(text))
}

/// A path that this process can use for an open file.
pub(super) fn path_of(fd: impl AsFd) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}
