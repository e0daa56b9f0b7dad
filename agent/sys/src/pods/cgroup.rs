//! Created and removed pods and containers: the directories of the kubepods cgroup tree, watched by
//! [inotify(7)](https://man7.org/linux/man-pages/man7/inotify.7.html).
//!
//! A directory may have entries before its watch exists, so it is listed after the watch is added. An entry in both the
//! list and the events counts once. When the kernel's queue overflows the whole tree is listed again. A directory that
//! is removed before it can be watched is not an error. What can go wrong: `fs.inotify.max_user_watches` (one watch for
//! each pod, two or three for their parents) and `fs.inotify.max_user_instances`, which a pod of root can use up. While
//! watches or instances are exhausted the whole tree is listed every two seconds.
//!
//! A pod that may create cgroups can change its directory thousands of times a second. Such a directory is not watched
//! until the next listing, so that it neither fills the queue nor occupies the agent.
//!
//! Needs only read access to the tree. Works on cgroup v1, v2 and hybrid, because only the names of directories matter.

mod change;
mod contents;
mod locate;
mod place;
mod walk;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io, mem,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, Inotify, InotifyEvent, WatchDescriptor},
};
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, timeout_at},
};
use usher_core::base::id::{ContainerId, ContainerKey, PodUid};

pub(crate) use self::locate::V2_MARK;
pub use self::{
    change::{Change, Error},
    locate::locate,
    walk::{FoundPod, walk},
};
use self::{
    contents::Update,
    place::{Level, Place},
};
use crate::pods::inotify::Watches;

/// Interval between listings of the whole tree while a part of it is not watched.
const RELIST: Duration = Duration::from_secs(2);

/// The watched tree.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    /// None while no inotify instance is free.
    watches: Option<AsyncFd<Watches>>,
    watched: HashMap<WatchDescriptor, Place>,
    /// Pods and containers that were reported as created.
    known: BTreeMap<PodUid, BTreeSet<ContainerId>>,
    /// Time of the next listing of the whole tree, if a part of it could not be watched or listed.
    relist_at: Option<Instant>,
    /// These parts.
    failing: BTreeSet<PathBuf>,
    /// Whether all directories have been listed since the last listing of the whole tree.
    is_whole: bool,
}

impl Tree {
    /// Watches the tree below `root`, the directory that contains or will contain `kubepods`. Returns the existing pods
    /// and containers. Errors below the root are returned with the result, and the rest of the tree is watched anyway.
    ///
    /// # Errors
    /// If the root itself can be neither watched nor listed.
    pub fn open(root: &Path) -> Result<(Self, Vec<Change>, Vec<Error>), Error> {
        let mut update = Update::default();
        let opened = Watches::open().map_err(|error| update.errors.push(Error::Init(error)));
        let mut tree = Self {
            root: root.to_owned(),
            watches: opened.ok(),
            watched: HashMap::new(),
            known: BTreeMap::new(),
            relist_at: None,
            failing: BTreeSet::new(),
            is_whole: true,
        };
        tree.enter(&Level::Root, root, &mut update);
        let of_root =
            |error: &mut Error| matches!(error, Error::List { path, .. } if *path == root);
        if tree.watched.is_empty()
            && let Some(error) = update.errors.pop_if(of_root)
        {
            return Err(error);
        }
        tree.schedule_relist(&update);
        Ok((tree, update.changes, update.errors))
    }

    /// Waits for changes and returns them.
    ///
    /// # Errors
    /// [`Error::Read`] is permanent; the other errors are returned with the changes.
    pub async fn changed(&mut self) -> Result<(Vec<Change>, Vec<Error>), Error> {
        loop {
            let readable = readable(self.watches.as_ref());
            let due = match self.relist_at {
                None => Some(readable.await),
                Some(at) => timeout_at(at, readable).await.ok(),
            };
            let (changes, errors) = match due {
                Some(ready) => {
                    ready.map_err(Error::Read)?;
                    self.drain()?
                }
                None => self.relist(),
            };
            if !changes.is_empty() || !errors.is_empty() {
                return Ok((changes, errors));
            }
        }
    }

    /// Whether the container was reported as created and not as removed.
    pub fn knows(&self, key: &ContainerKey) -> bool {
        let containers = self.known.get(&key.pod);
        containers.is_some_and(|containers| containers.contains(&key.id))
    }

    /// Returns the changes so far, without waiting.
    ///
    /// # Errors
    /// [`Error::Read`] is permanent; the other errors are returned with the changes.
    pub fn drain(&mut self) -> Result<(Vec<Change>, Vec<Error>), Error> {
        let mut update = Update::default();
        loop {
            let read = self.watches.as_ref().map(|watches| &watches.get_ref().0);
            match read.map_or(Err(Errno::EAGAIN), Inotify::read_events) {
                Ok(events) => {
                    for event in events {
                        self.handle_event(&event, &mut update);
                    }
                }
                Err(Errno::EAGAIN) => {
                    self.schedule_relist(&update);
                    // Appended last: an overflow hides no directory, because the tree was listed again.
                    update
                        .errors
                        .extend(update.overflowed.then_some(Error::Overflow));
                    return Ok((update.changes, update.errors));
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(Error::Read(errno.into())),
            }
        }
    }

    /// Like [`Self::drain`], and lists the whole tree if a watch is missing.
    pub fn settle(&mut self) -> Result<(Vec<Change>, Vec<Error>), Error> {
        let (mut changes, mut errors) = self.drain()?;
        if self.relist_at.is_some() {
            let (more, still) = self.relist();
            changes.extend(more);
            errors.extend(still);
        }
        Ok((changes, errors))
    }

    /// Whether the last listings of all directories succeeded.
    pub const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Schedules a listing after errors: without a watch no event reports new directories.
    fn schedule_relist(&mut self, update: &Update) {
        self.is_whole &= !update.errors.iter().any(Error::hides_existing);
        if update.errors.is_empty() && self.watches.is_some() {
            return;
        }
        self.relist_at.get_or_insert(Instant::now() + RELIST);
        let failing = update.errors.iter().filter_map(Error::failing_path);
        self.failing.extend(failing.map(Path::to_owned));
    }

    /// Lists the whole tree and adds missing watches. Returns only the errors that the last attempt had not.
    fn relist(&mut self) -> (Vec<Change>, Vec<Error>) {
        if self.watches.is_none() {
            // The error was returned when the tree was opened.
            self.watches = Watches::open().ok();
        }
        let mut update = Update::default();
        self.list_all(&mut update);
        let before = mem::take(&mut self.failing);
        self.relist_at = None;
        self.is_whole = true;
        self.schedule_relist(&update);
        let is_new = |error: &Error| {
            error
                .failing_path()
                .is_none_or(|path| !before.contains(path))
        };
        update.errors.retain(is_new);
        (update.changes, update.errors)
    }

    fn handle_event(&mut self, event: &InotifyEvent, update: &mut Update) {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            // The end of a watch may be lost. A directory that still exists gets the same descriptor again.
            let before = mem::take(&mut self.watched);
            self.list_all(update);
            for (watch, place) in before {
                if self.watched.contains_key(&watch) {
                    continue;
                }
                if place.path.exists() {
                    self.watched.insert(watch, place);
                } else {
                    self.unwatch(watch);
                }
            }
            update.overflowed = true;
            return;
        }
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.watched.remove(&event.wd);
            return;
        }
        let Some(place) = self.watched.get_mut(&event.wd) else {
            return;
        };
        let is_busy = place.is_busy(Instant::now());
        let (level, path) = (place.level.clone(), place.path.clone());
        if is_busy {
            self.watched.remove(&event.wd);
            self.unwatch(event.wd);
            update.errors.push(Error::Busy { path });
            return;
        }
        let Some(name) = &event.name else { return };
        if event.mask.contains(AddWatchFlags::IN_CREATE) {
            self.appeared(&level, &path, name, update);
        } else if event.mask.contains(AddWatchFlags::IN_DELETE) {
            self.removed(&level, name, update);
        }
    }
}

/// Waits until there are events to read.
async fn readable(watches: Option<&AsyncFd<Watches>>) -> io::Result<()> {
    match watches {
        Some(watches) => watches.readable().await?.clear_ready(),
        None => std::future::pending().await,
    }
    Ok(())
}

#[cfg(test)]
mod tests;
