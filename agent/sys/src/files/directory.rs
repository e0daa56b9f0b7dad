//! Change notification for one directory, such as that of a configuration file.
//!
//! The watch is on the directory, not on the file: editors replace the file by renaming, and the kubelet replaces a
//! link in its directory (`..data`) when a ConfigMap changes
//! ([AtomicWriter](https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/volume/util/atomic_writer.go)).

mod places;

use std::{
    io,
    path::{Path, PathBuf},
};

use nix::sys::inotify::AddWatchFlags;
use tokio::io::unix::AsyncFd;

pub use self::places::Places;
use crate::pods::inotify::Watches;

/// The events that count as a change.
const FLAGS: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_CLOSE_WRITE)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_ONLYDIR);

/// The directory cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("watching {path:?}")]
    Watch { path: PathBuf, source: io::Error },
    #[error("reading inotify events of {path:?}")]
    Read { path: PathBuf, source: io::Error },
}

/// A watched directory.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    watches: AsyncFd<Watches>,
}

impl Directory {
    /// Watches a directory; [`Self::changed`] reports changes from now on.
    ///
    /// # Errors
    /// [`Error::Watch`], also if the directory does not exist.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::watch(path, FLAGS)
    }

    /// Watches a directory with a file that other programs append to: each write is a change.
    ///
    /// # Errors
    /// [`Error::Watch`], also if the directory does not exist.
    pub fn open_for_writes(path: &Path) -> Result<Self, Error> {
        Self::watch(path, FLAGS | AddWatchFlags::IN_MODIFY)
    }

    fn watch(path: &Path, flags: AddWatchFlags) -> Result<Self, Error> {
        let failed = |source| Error::Watch {
            path: path.to_owned(),
            source,
        };
        let watches = Watches::open().map_err(failed)?;
        let added = watches.get_ref().0.add_watch(path, flags);
        added.map_err(|errno| failed(errno.into()))?;
        Ok(Self {
            path: path.to_owned(),
            watches,
        })
    }

    /// Waits until something in the directory changes.
    ///
    /// # Errors
    /// [`Error::Read`], which is permanent.
    pub async fn changed(&mut self) -> Result<(), Error> {
        let events = Watches::next(&self.watches).await;
        events.map(drop).map_err(|source| Error::Read {
            path: self.path.clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, time::Duration};

    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(flavor = "current_thread")]
    async fn written_replaced_and_relinked_files_are_changes() {
        let dir = tempfile::tempdir().unwrap();
        let mut watched = Directory::open(dir.path()).unwrap();
        let path = dir.path().join("config.yaml");
        fs::write(&path, "a").unwrap();
        timeout(PATIENCE, watched.changed()).await.unwrap().unwrap();
        let new = dir.path().join("new");
        fs::write(&new, "b").unwrap();
        fs::rename(&new, &path).unwrap();
        timeout(PATIENCE, watched.changed()).await.unwrap().unwrap();
        // The kubelet replaces the link in the same way.
        symlink("data-1", dir.path().join("..data_tmp")).unwrap();
        fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).unwrap();
        timeout(PATIENCE, watched.changed()).await.unwrap().unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn no_such_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Directory::open(&dir.path().join("absent")).is_err());
    }
}
