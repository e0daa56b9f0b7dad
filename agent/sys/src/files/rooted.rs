//! Files below another root directory, opened as a process with that root would open them
//! ([openat2(2)](https://man7.org/linux/man-pages/man2/openat2.2.html)).

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};

/// A root directory, such as `/proc/1/root`, for which `CAP_SYS_PTRACE` is needed.
#[derive(Debug)]
pub struct Root(File);

/// Whether a path may contain symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Follow,
    Refuse,
}

impl Root {
    pub fn open(dir: &Path) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let mut options = File::options();
        let root = options.read(true).custom_flags(flags.bits()).open(dir)?;
        Ok(Self(root))
    }

    /// A directory, only to identify it and to look up its files.
    pub fn dir(&self, path: &Path) -> io::Result<File> {
        self.at(path, OFlag::O_PATH | OFlag::O_DIRECTORY, Links::Follow)
    }

    /// The text of a regular file, up to a limit in bytes.
    pub fn text(&self, path: &Path, links: Links, limit: u64) -> io::Result<String> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = self.at(path, flags, links)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn at(&self, path: &Path, flags: OFlag, links: Links) -> io::Result<File> {
        let mut resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        resolve.set(ResolveFlag::RESOLVE_NO_SYMLINKS, links == Links::Refuse);
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC)
            .resolve(resolve);
        Ok(File::from(openat2(self.0.as_fd(), path, how)?))
    }
}
