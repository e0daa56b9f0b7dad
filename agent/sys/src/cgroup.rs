//! Pods and containers that come and go, from the directories of the kubepods
//! cgroup tree, by
//! [inotify(7)](https://man7.org/linux/man-pages/man7/inotify.7.html).
//!
//! A directory may be filled before its watch is there, so each is listed after
//! its watch was added, and what both the list and the watch tell counts once.
//! When the kernel's queue overflows everything is listed again. A directory
//! may also be gone before it can be watched; that is no error. What can go
//! wrong: `fs.inotify.max_user_watches` (one watch for each pod, two or three
//! for their parents).
//!
//! Needs read access to the tree and nothing else. Works on cgroup v1, v2 and
//! hybrid, since only names of directories count.

mod locate;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InotifyEvent, WatchDescriptor},
};
use tokio::io::unix::AsyncFd;
use usher_core::{
    cgroup,
    event::ContainerKey,
    id::{ContainerId, PodUid},
};

pub use locate::locate;

use crate::inotify::Watches;

/// A cgroup came or went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A pod's directory exists.
    PodAppeared(PodUid),
    /// A pod's directory is gone.
    PodGone(PodUid),
    /// A container's directory exists, at this path.
    ContainerAppeared(ContainerKey, PathBuf),
    /// A container's directory is gone.
    ContainerGone(ContainerKey),
}

/// The tree cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No inotify instance could be made.
    #[error("making an inotify instance")]
    Init(#[source] io::Error),
    /// The kernel's queue could not be read.
    #[error("reading inotify events")]
    Read(#[source] io::Error),
    /// A directory could not be watched.
    #[error("watching {path:?}")]
    Watch {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory could not be listed.
    #[error("listing {path:?}")]
    List {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// What failed, for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Init(_) => "inotify-init",
            Self::Read(_) => "inotify-read",
            Self::Watch { .. } => "inotify-watch",
            Self::List { .. } => "cgroup-list",
        }
    }
}

/// What a watched directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// Where the kubepods directory is, or will be.
    Root,
    /// All pods.
    Kubepods,
    /// The pods of one QoS class.
    Qos,
    /// One pod.
    Pod(PodUid),
}

/// The watched tree.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    watches: AsyncFd<Watches>,
    places: HashMap<WatchDescriptor, (Place, PathBuf)>,
    /// What has been told to be there.
    known: BTreeMap<PodUid, BTreeSet<ContainerId>>,
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
        };
        let mut told = Told::default();
        tree.enter(&Place::Root, root.to_owned(), &mut told);
        if tree.places.is_empty()
            && let Some(error) = told.errors.pop()
        {
            return Err(error);
        }
        Ok((tree, told.changes, told.errors))
    }

    /// Waits until something changes, and tells what.
    ///
    /// # Errors
    /// [`Error::Read`] is for good; the others come with the changes.
    pub async fn changed(&mut self) -> Result<(Vec<Change>, Vec<Error>), Error> {
        loop {
            let mut guard = self.watches.readable().await.map_err(Error::Read)?;
            guard.clear_ready();
            drop(guard);
            let (changes, errors) = self.drain()?;
            if !changes.is_empty() || !errors.is_empty() {
                return Ok((changes, errors));
            }
        }
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
                Err(Errno::EAGAIN) => return Ok((told.changes, told.errors)),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(Error::Read(errno.into())),
            }
        }
    }

    fn happened(&mut self, event: &InotifyEvent, told: &mut Told) {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            self.list_again(told);
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

    /// Watches a directory, then lists it.
    fn enter(&mut self, place: &Place, path: PathBuf, told: &mut Told) {
        let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_ONLYDIR;
        match self.watches.get_ref().0.add_watch(&path, flags) {
            Ok(watch) => {
                self.places.insert(watch, (place.clone(), path.clone()));
            }
            Err(Errno::ENOENT) => return,
            Err(errno) => told.errors.push(Error::Watch {
                path: path.clone(),
                source: errno.into(),
            }),
        }
        let listed = fs::read_dir(&path).and_then(|entries| {
            entries
                .filter(|entry| {
                    entry.as_ref().map_or(true, |entry| {
                        entry.file_type().is_ok_and(|kind| kind.is_dir())
                    })
                })
                .map(|entry| entry.map(|entry| entry.file_name()))
                .collect::<io::Result<Vec<_>>>()
        });
        match listed {
            Ok(names) => {
                for name in names {
                    self.found(place, &path, &name, told);
                }
            }
            Err(gone) if matches!(gone.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => {}
            Err(source) => told.errors.push(Error::List { path, source }),
        }
    }

    /// A directory of this name is in a watched place.
    fn found(&mut self, place: &Place, path: &Path, name: &OsStr, told: &mut Told) {
        let path = path.join(name);
        let Some(name) = name.to_str() else { return };
        match place {
            Place::Root if cgroup::is_kubepods(name) => self.enter(&Place::Kubepods, path, told),
            Place::Kubepods if cgroup::is_qos(name) => self.enter(&Place::Qos, path, told),
            Place::Kubepods | Place::Qos => {
                let Some(uid) = cgroup::pod(name) else { return };
                if !self.known.contains_key(&uid) {
                    self.known.insert(uid.clone(), BTreeSet::new());
                    told.changes.push(Change::PodAppeared(uid.clone()));
                }
                self.enter(&Place::Pod(uid), path, told);
            }
            Place::Pod(pod) => {
                let Some(id) = cgroup::container(name) else {
                    return;
                };
                if self
                    .known
                    .entry(pod.clone())
                    .or_default()
                    .insert(id.clone())
                {
                    let pod = pod.clone();
                    let key = ContainerKey { pod, id };
                    told.changes.push(Change::ContainerAppeared(key, path));
                }
            }
            Place::Root => {}
        }
    }

    /// A directory of this name is gone from a watched place.
    fn lost(&mut self, place: &Place, name: &OsStr, told: &mut Told) {
        let Some(name) = name.to_str() else { return };
        match place {
            Place::Root => {}
            Place::Kubepods | Place::Qos => {
                if let Some(uid) = cgroup::pod(name) {
                    self.pod_gone(&uid, told);
                }
            }
            Place::Pod(pod) => {
                let Some(id) = cgroup::container(name) else {
                    return;
                };
                let known = self.known.get_mut(pod);
                if known.is_some_and(|containers| containers.remove(&id)) {
                    let pod = pod.clone();
                    let key = ContainerKey { pod, id };
                    told.changes.push(Change::ContainerGone(key));
                }
            }
        }
    }

    fn pod_gone(&mut self, uid: &PodUid, told: &mut Told) {
        let Some(containers) = self.known.remove(uid) else {
            return;
        };
        for id in containers {
            let pod = uid.clone();
            told.changes
                .push(Change::ContainerGone(ContainerKey { pod, id }));
        }
        told.changes.push(Change::PodGone(uid.clone()));
    }

    /// The kernel dropped events: what is known and not there any more is
    /// gone, and what is there and not known has appeared.
    fn list_again(&mut self, told: &mut Told) {
        let before = std::mem::take(&mut self.known);
        let mut now = Told::default();
        self.enter(&Place::Root, self.root.clone(), &mut now);
        told.errors.append(&mut now.errors);
        for (uid, containers) in &before {
            let left = self.known.get(uid);
            for id in containers {
                if !left.is_some_and(|left| left.contains(id)) {
                    let (pod, id) = (uid.clone(), id.clone());
                    told.changes
                        .push(Change::ContainerGone(ContainerKey { pod, id }));
                }
            }
            if left.is_none() {
                told.changes.push(Change::PodGone(uid.clone()));
            }
        }
        told.changes
            .extend(now.changes.into_iter().filter(|change| {
                match change {
                    Change::PodAppeared(uid) => !before.contains_key(uid),
                    Change::ContainerAppeared(key, _path) => !before
                        .get(&key.pod)
                        .is_some_and(|containers| containers.contains(&key.id)),
                    Change::PodGone(_) | Change::ContainerGone(_) => true,
                }
            }));
    }
}

#[derive(Debug, Default)]
struct Told {
    changes: Vec<Change>,
    errors: Vec<Error>,
}

#[cfg(test)]
mod tests;
