//! The pod's network namespace. The plugin opens the path from the runtime, so that the agent need not trust a path.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use nix::{
    fcntl::OFlag,
    sys::statfs::{NSFS_MAGIC, fstatfs},
};
use usher_core::base::id::NetnsId;

const OWN: &str = "/proc/thread-self/ns/net";

/// An open namespace file.
#[derive(Debug)]
pub(crate) struct Netns(OwnedFd);

/// There is no pod namespace to pass on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("opening {path}")]
    Open { path: PathBuf, source: io::Error },
    #[error("{path} is not a namespace")]
    NotNamespace { path: PathBuf },
    #[error("{path} is the node's own namespace")]
    Own { path: PathBuf },
}

impl Netns {
    /// The open does not block on a pipe or a device.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source: io::Error| Error::Open {
            path: path.to_owned(),
            source,
        };
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .custom_flags(flags.bits())
            .open(path)
            .map_err(failed)?;
        let system = fstatfs(&file).map_err(|errno| failed(errno.into()))?;
        if system.filesystem_type() != NSFS_MAGIC {
            return Err(Error::NotNamespace {
                path: path.to_owned(),
            });
        }
        let own = File::open(OWN).and_then(|own| id(&own)).map_err(failed)?;
        if id(&file).map_err(failed)? == own {
            return Err(Error::Own {
                path: path.to_owned(),
            });
        }
        Ok(Self(file.into()))
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn id(file: &File) -> io::Result<NetnsId> {
    let metadata = file.metadata()?;
    Ok(NetnsId {
        dev: metadata.dev(),
        ino: metadata.ino(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_rejected() {
        let rejected = |path: &str| Netns::open(Path::new(path)).unwrap_err();
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(rejected("/nowhere"), Error::Open { .. }));
        assert!(matches!(rejected("/dev/null"), Error::NotNamespace { .. }));
        assert!(matches!(
            rejected(pipe.to_str().unwrap()),
            Error::NotNamespace { .. }
        ));
        assert!(matches!(rejected(OWN), Error::Own { .. }));
    }
}
