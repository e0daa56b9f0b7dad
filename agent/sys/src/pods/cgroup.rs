//! Pods and containers that come and go, from the directories of the kubepods
//! cgroup tree, by
//! [inotify(7)](https://man7.org/linux/man-pages/man7/inotify.7.html).
//!
//! A directory may be filled before its watch is there, so each is listed after
//! its watch was added, and what both the list and the watch tell counts once.
//! When the kernel's queue overflows everything is listed again. A directory
//! may also be gone before it can be watched; that is no error. What can go
//! wrong: `fs.inotify.max_user_watches` (one watch for each pod, two or three
//! for their parents). While watches are exhausted everything is listed every
//! two seconds instead.
//!
//! Needs read access to the tree and nothing else. Works on cgroup v1, v2 and
//! hybrid, since only names of directories count.

mod change;
mod contents;
mod locate;
mod walk;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InotifyEvent, WatchDescriptor},
};
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, timeout_at},
};
use usher_core::base::id::{ContainerId, ContainerKey, PodUid};

use self::contents::{Place, Told};
pub use self::{
    change::{Change, Error},
    locate::locate,
    walk::{FoundPod, walk},
};
use crate::pods::inotify::Watches;

/// While a part of the tree cannot be watched all of it is listed this often.
const AGAIN: Duration = Duration::from_secs(2);

/// The watched tree.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    watches: AsyncFd<Watches>,
    places: HashMap<WatchDescriptor, (Place, PathBuf)>,
    /// What has been told to be there.
    known: BTreeMap<PodUid, BTreeSet<ContainerId>>,
    /// When everything is to be listed again, since a part could not be looked at.
    again: Option<Instant>,
    /// How many parts these were the last time.
    unseen: usize,
    /// No directory was left out since everything was listed last.
    is_whole: bool,
}

impl Tree {
    /// Watches the tree below `root`, the directory that holds `kubepods` (or
    /// will), and tells what is there already. Errors below the root are
    /// returned beside it: the rest of the tree is watched all the same.
    ///
    /// # Errors
    /// When the root itself cannot be watched.
    pub fn open(root: &Path) -> Result<(Self, Vec<Change>, Vec<Error>), Error> {
        let watches = Watches::open().map_err(Error::Init)?;
        let mut tree = Self {
            root: root.to_owned(),
            watches,
            places: HashMap::new(),
            known: BTreeMap::new(),
            again: None,
            unseen: 0,
            is_whole: true,
        };
        let mut told = Told::default();
        tree.enter(&Place::Root, root.to_owned(), &mut told);
        if tree.places.is_empty()
            && let Some(error) = told.errors.pop()
        {
            return Err(error);
        }
        tree.look_again_after(&told);
        Ok((tree, told.changes, told.errors))
    }

    /// Waits until something changes, and tells what.
    ///
    /// # Errors
    /// [`Error::Read`] is for good; the others come with the changes.
    pub async fn changed(&mut self) -> Result<(Vec<Change>, Vec<Error>), Error> {
        loop {
            let readable = self.watches.readable();
            let due = match self.again {
                None => Some(readable.await),
                Some(again) => timeout_at(again, readable).await.ok(),
            };
            let (changes, errors) = match due {
                Some(ready) => {
                    ready.map_err(Error::Read)?.clear_ready();
                    self.drain()?
                }
                None => self.look_again(),
            };
            if !changes.is_empty() || !errors.is_empty() {
                return Ok((changes, errors));
            }
        }
    }

    /// Whether this container's directory exists, as far as it was told.
    pub fn knows(&self, key: &ContainerKey) -> bool {
        let containers = self.known.get(&key.pod);
        containers.is_some_and(|containers| containers.contains(&key.id))
    }

    /// Tells what has changed until now, without waiting.
    ///
    /// # Errors
    /// [`Error::Read`] is for good; the others come with the changes.
    pub fn drain(&mut self) -> Result<(Vec<Change>, Vec<Error>), Error> {
        let mut told = Told::default();
        loop {
            match self.watches.get_ref().0.read_events() {
                Ok(events) => {
                    for event in events {
                        self.happened(&event, &mut told);
                    }
                }
                Err(Errno::EAGAIN) => {
                    self.look_again_after(&told);
                    // Nothing is left unseen by it.
                    told.errors
                        .extend(told.overflowed.then_some(Error::Overflow));
                    return Ok((told.changes, told.errors));
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(Error::Read(errno.into())),
            }
        }
    }

    /// The same, and looks itself where no watch tells.
    ///
    /// # Errors
    /// As of [`Tree::drain`].
    pub fn settle(&mut self) -> Result<(Vec<Change>, Vec<Error>), Error> {
        let (mut changes, mut errors) = self.drain()?;
        if self.again.is_some() {
            let (more, still) = self.look_again();
            changes.extend(more);
            errors.extend(still);
        }
        Ok((changes, errors))
    }

    /// Whether all directories could be listed when they were looked at last.
    pub const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Something could not be looked at: without a watch nothing tells what comes there.
    fn look_again_after(&mut self, told: &Told) {
        self.is_whole &= !told.errors.iter().any(Error::hides);
        if !told.errors.is_empty() && self.again.is_none() {
            self.again = Some(Instant::now() + AGAIN);
            self.unseen = told.errors.len();
        }
    }

    /// Lists everything again, and watches what can be watched by now. What still cannot is told only where it is
    /// more or less than before.
    fn look_again(&mut self) -> (Vec<Change>, Vec<Error>) {
        let mut told = Told::default();
        self.list_again(&mut told);
        let before = self.unseen;
        self.again = None;
        self.is_whole = true;
        self.look_again_after(&told);
        if told.errors.len() == before {
            told.errors.clear();
        }
        (told.changes, told.errors)
    }

    fn happened(&mut self, event: &InotifyEvent, told: &mut Told) {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            self.list_again(told);
            told.overflowed = true;
            return;
        }
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.places.remove(&event.wd);
            return;
        }
        let Some((place, path)) = self.places.get(&event.wd).cloned() else {
            return;
        };
        let Some(name) = &event.name else { return };
        if event.mask.contains(AddWatchFlags::IN_CREATE) {
            self.found(&place, &path, name, told);
        } else if event.mask.contains(AddWatchFlags::IN_DELETE) {
            self.lost(&place, name, told);
        }
    }
}

#[cfg(test)]
mod tests;
