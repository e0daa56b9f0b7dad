//! The bundles of a container runtime: one directory for each container, seen
//! from the moment that it is made to that of its first process.
//!
//! containerd's [runtime v2](https://github.com/containerd/containerd/blob/v2.0.0/core/runtime/v2/bundle.go)
//! makes a directory named after the container's id and writes
//! `config.json` into it; then its root file system is mounted at `rootfs`, and
//! its first process's number is written to `init.pid`. All of it is told by the
//! kernel: one [inotify(7)](https://man7.org/linux/man-pages/man7/inotify.7.html)
//! instance for the directories and files, and changes of the mounts (`mount`),
//! which inotify does not tell. A bundle is watched only until it has shown
//! what is wanted of it.
//!
//! What can go wrong: the directory is made with the node's first container
//! (its parents are watched), `config.json` is seen before its content
//! (read again), the kernel's queue overflows (all is looked at again).

mod directory;
mod entry;
mod file;
mod mount;
mod process;
mod sight;

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use nix::sys::inotify::WatchDescriptor;
use tokio::io::unix::AsyncFd;
use usher_core::base::id::{ContainerId, Pid};

use self::{entry::Entry, mount::Changes};
pub use self::{
    process::{started, visible, volumes},
    sight::{Error, Sight},
};
use crate::{files::directory::Places, pods::inotify::Watches};

/// The bundles in one directory.
#[derive(Debug)]
pub struct Bundles {
    path: PathBuf,
    watches: AsyncFd<Watches>,
    /// The directory's own, while it is there. It is not kept open: an open
    /// directory's end is not told.
    directory: Option<WatchDescriptor>,
    /// While it is not.
    places: Option<Places>,
    entries: BTreeMap<ContainerId, Entry>,
    watched: BTreeMap<WatchDescriptor, ContainerId>,
    /// While a mount is waited for.
    mounts: Option<Changes>,
}

impl Bundles {
    /// Watches from now on, on a thread with a tokio runtime. A directory that
    /// is not there is waited for. Bundles that are there are not told, except by
    /// [`Self::unstarted`] and [`Self::follow`].
    ///
    /// # Errors
    /// [`Error::Watch`], [`Error::List`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let watches = Watches::open().map_err(|source| Error::watch(path, source))?;
        let mut bundles = Self {
            path: path.to_owned(),
            watches,
            directory: None,
            places: None,
            entries: BTreeMap::new(),
            watched: BTreeMap::new(),
            mounts: None,
        };
        if bundles.enter()? {
            for id in bundles.list()? {
                bundles.entries.insert(id, Entry::old());
            }
        }
        Ok(bundles)
    }

    /// Waits until something happens. May be given up and called again.
    ///
    /// # Errors
    /// [`Error`], which is for good.
    pub async fn next(&mut self) -> Result<Vec<Sight>, Error> {
        loop {
            let sights = tokio::select! {
                events = Watches::next(&self.watches) => {
                    let events = events.map_err(|source| Error::read(&self.path, source))?;
                    self.take(&events)?
                }
                changed = changed(self.mounts.as_ref()) => {
                    changed.map_err(Error::Mounts)?;
                    self.look_for_mounts()
                }
                changed = appeared(self.places.as_mut()) => {
                    changed?;
                    self.enter_anew()?
                }
            };
            if !sights.is_empty() {
                return Ok(sights);
            }
        }
    }

    /// The bundles that were there at the beginning and have no process yet:
    /// those of containers that are being started.
    ///
    /// # Errors
    /// As [`Self::next`]; nothing that is done now can fail.
    pub fn unstarted(&mut self) -> Result<Vec<Sight>, Error> {
        let all: Vec<ContainerId> = self.entries.keys().cloned().collect();
        let mut sights = Vec::new();
        for id in all {
            let bundle = self.directory(&id);
            let is_unstarted = bundle.is_ok_and(|bundle| !file::has_init(bundle.as_fd()));
            if is_unstarted && let Some(entry) = self.entries.get_mut(&id) {
                entry.ask();
                self.look(&id, &mut sights);
            }
        }
        Ok(sights)
    }

    /// Tells the mount and the first process of a container from now on, and
    /// at once what is there already; [`Sight::Gone`] if it is not.
    ///
    /// # Errors
    /// [`Error::Mounts`].
    pub fn follow(&mut self, id: &ContainerId) -> Result<Vec<Sight>, Error> {
        let Ok(bundle) = self.directory(id) else {
            // If its end is in the queue it is told only once.
            return Ok(self
                .gone(id)
                .unwrap_or_else(|| vec![Sight::Gone(id.clone())]));
        };
        // Before the first look.
        if self.mounts.is_none() {
            self.mounts = Some(Changes::open().map_err(Error::Mounts)?);
        }
        let entry = { self.entries.entry(id.clone()) }.or_insert_with(Entry::old);
        entry.follow(bundle);
        let mut sights = Vec::new();
        self.look(id, &mut sights);
        self.rest();
        Ok(sights)
    }

    /// Tells nothing of a container any more but its end.
    pub fn forget(&mut self, id: &ContainerId) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.forget();
            self.settle(id);
            self.rest();
        }
    }

    /// Opens a bundle, with `O_PATH`.
    ///
    /// # Errors
    /// What opening says; `ELOOP` or `ENOTDIR` for a symbolic link.
    pub fn directory(&self, id: &ContainerId) -> io::Result<OwnedFd> {
        file::bundle(&self.path.join(id.as_str()))
    }

    /// Opens a container's root file system, with `O_PATH`. To be closed at
    /// once: the runtime cannot unmount what is open.
    ///
    /// # Errors
    /// What opening says.
    pub fn root(&self, id: &ContainerId) -> io::Result<OwnedFd> {
        mount::root(self.directory(id)?.as_fd())
    }

    /// A container's first process; None when there is none yet.
    pub fn init(&self, id: &ContainerId) -> Option<Pid> {
        file::init(self.directory(id).ok()?.as_fd())
    }
}

async fn changed(mounts: Option<&Changes>) -> io::Result<()> {
    match mounts {
        Some(mounts) => mounts.next().await,
        None => std::future::pending().await,
    }
}

async fn appeared(places: Option<&mut Places>) -> Result<(), Error> {
    match places {
        Some(places) => Ok(places.changed().await?),
        None => std::future::pending().await,
    }
}
