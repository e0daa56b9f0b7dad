//! Change notification for directories that may not exist yet or may be replaced.
//!
//! Each directory is watched together with all its ancestors. In an ancestor, only the name of the next component
//! counts. So creation, removal and replacement of the directory are events too, and no polling is needed. The kernel
//! allows a user few inotify instances (128 by default), so all directories share one.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::inotify::{InotifyEvent, WatchDescriptor},
};
use tokio::io::unix::AsyncFd;

use super::{Error, FLAGS};
use crate::pods::inotify::Watches;

/// Changes of some directories and of their entries.
#[derive(Debug)]
pub struct Places {
    watches: AsyncFd<Watches>,
    /// The names to report in each directory; None for all.
    names: BTreeMap<WatchDescriptor, Option<Vec<OsString>>>,
}

impl Places {
    /// Watches from now on. A directory may be absent: its creation is a change. A change may add directories to watch,
    /// so open the places again after each change.
    /// # Errors
    /// [`Error::Watch`], but not for an absent directory.
    pub fn open(paths: &[&Path]) -> Result<Self, Error> {
        let opened = Watches::open().map_err(|source| Error::Watch {
            path: paths.first().map_or_else(PathBuf::new, PathBuf::from),
            source,
        });
        let mut places = Self {
            watches: opened?,
            names: BTreeMap::new(),
        };
        for path in paths {
            places.follow(path)?;
        }
        Ok(places)
    }

    /// Adds watches from the root down: an entry that appears in the meantime is an event in its parent.
    fn follow(&mut self, path: &Path) -> Result<(), Error> {
        let mut way: Vec<&Path> = path.ancestors().collect();
        way.reverse();
        for (index, directory) in way.iter().enumerate() {
            let next = way.get(index + 1).and_then(|next| next.file_name());
            let here = if directory.as_os_str().is_empty() {
                Path::new(".")
            } else {
                *directory
            };
            match self.add(here, next) {
                Ok(()) => {}
                Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(()),
                Err(errno) => {
                    return Err(Error::Watch {
                        path: here.to_owned(),
                        source: errno.into(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Merges the names if several paths share a directory.
    fn add(&mut self, directory: &Path, name: Option<&OsStr>) -> Result<(), Errno> {
        let watch = self.watches.get_ref().0.add_watch(directory, FLAGS)?;
        let names = self.names.entry(watch).or_insert_with(|| Some(Vec::new()));
        match (names.as_mut(), name) {
            (Some(known), Some(name)) => known.push(name.to_owned()),
            (Some(_), None) => *names = None,
            (None, _) => {}
        }
        Ok(())
    }

    /// Waits until something changes.
    ///
    /// # Errors
    /// [`Error::Read`], which is permanent.
    pub async fn changed(&mut self) -> Result<(), Error> {
        loop {
            let events = Watches::next(&self.watches)
                .await
                .map_err(|source| Error::Read {
                    path: PathBuf::new(),
                    source,
                })?;
            if events.iter().any(|event| self.concerns(event)) {
                return Ok(());
            }
        }
    }

    fn concerns(&self, event: &InotifyEvent) -> bool {
        match self.names.get(&event.wd) {
            Some(Some(names)) => event.name.as_ref().is_none_or(|name| names.contains(name)),
            // All names count; or the queue overflowed, and the event names no directory.
            Some(None) | None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, future::Future, os::unix::fs::symlink, time::Duration};

    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    async fn wait_for_change(places: &mut Places) {
        timeout(PATIENCE, places.changed()).await.unwrap().unwrap();
    }

    /// Whether no event is waiting.
    async fn is_quiet(places: &mut Places) -> bool {
        let mut changed = Box::pin(places.changed());
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(changed.as_mut().poll(context).is_pending())
        })
        .await
    }

    #[tokio::test(flavor = "current_thread")]
    async fn created_filled_replaced_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c");
        let mut places = Places::open(&[&path]).unwrap();
        for part in ["a", "a/b", "a/b/c"] {
            fs::create_dir(dir.path().join(part)).unwrap();
            wait_for_change(&mut places).await;
            places = Places::open(&[&path]).unwrap();
        }
        fs::write(path.join("x"), "1").unwrap();
        wait_for_change(&mut places).await;
        fs::rename(&path, dir.path().join("a/b/old")).unwrap();
        symlink("old", &path).unwrap();
        wait_for_change(&mut places).await;
        let mut places = Places::open(&[&path]).unwrap();
        fs::write(dir.path().join("a/b/old/y"), "1").unwrap();
        wait_for_change(&mut places).await;
        fs::remove_file(&path).unwrap();
        wait_for_change(&mut places).await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn siblings_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("two/x"));
        fs::create_dir(&one).unwrap();
        let mut places = Places::open(&[&one, &other]).unwrap();
        assert!(is_quiet(&mut places).await);
        fs::write(dir.path().join("neighbour"), "1").unwrap();
        assert!(is_quiet(&mut places).await);
        fs::create_dir(dir.path().join("two")).unwrap();
        wait_for_change(&mut places).await;
        fs::write(one.join("file"), "1").unwrap();
        wait_for_change(&mut places).await;
    }
}
