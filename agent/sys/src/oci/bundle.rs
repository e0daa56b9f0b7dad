//! The bundles of a container runtime: one directory for each container, watched from its creation until the
//! container's first process.
//!
//! containerd's [runtime v2](https://github.com/containerd/containerd/blob/v2.0.0/core/runtime/v2/bundle.go) creates a
//! directory with the container's id as its name and writes `config.json` into it. Then it mounts the root file system
//! at `rootfs`, and the runtime writes the pid of the first process to `init.pid`. The kernel reports each step: one
//! [inotify(7)](https://man7.org/linux/man-pages/man7/inotify.7.html) instance watches the directories and files, and
//! `mount` watches the mounts, which inotify does not report. A bundle is watched only until everything needed has been
//! read.
//! What can go wrong: the directory may not exist before the node's first container (its parents are watched);
//! `config.json` may still be empty (it is read again); the kernel's queue may overflow (everything is read again).

mod directory;
mod entry;
mod file;
mod mount;
mod observation;
mod process;

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use nix::sys::inotify::WatchDescriptor;
use tokio::io::unix::AsyncFd;
use usher_core::base::id::{ContainerId, Pid};

use self::{
    entry::Entry,
    mount::Changes,
    observation::{WATCHING, failed},
};
pub use self::{
    file::init,
    mount::root,
    observation::{Error, Observation},
    process::{started, visible, volumes},
};
use crate::{files::directory::Places, pods::inotify::Watches};

/// The bundles in one directory.
#[derive(Debug)]
pub struct Bundles {
    path: PathBuf,
    watches: AsyncFd<Watches>,
    /// Watch of the directory, while it exists. The directory is not kept open, because inotify does not report the
    /// removal of an open directory.
    directory: Option<WatchDescriptor>,
    /// Watches of its parents, while it does not exist.
    places: Option<Places>,
    entries: BTreeMap<ContainerId, Entry>,
    watched: BTreeMap<WatchDescriptor, ContainerId>,
    /// Watch of mounts, while a followed bundle has no root file system.
    mounts: Option<Changes>,
}

impl Bundles {
    /// Watches from now on. Requires a tokio runtime on the thread. The directory may be absent. Only
    /// [`Self::unstarted`] and [`Self::follow`] report existing bundles.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let watches = Watches::open().map_err(failed(WATCHING, path))?;
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

    /// Cancel safe.
    ///
    /// # Errors
    /// [`Error`], which is permanent.
    pub async fn next(&mut self) -> Result<Vec<Observation>, Error> {
        loop {
            let observations = tokio::select! {
                events = Watches::next(&self.watches) => {
                    let events = events.map_err(failed("reading inotify events of", &self.path))?;
                    self.handle_events(&events)?
                }
                changed = changed(self.mounts.as_ref()) => {
                    changed.map_err(Error::Mounts)?;
                    self.check_mounts()
                }
                changed = appeared(self.places.as_mut()) => {
                    changed?;
                    self.reenter()?
                }
            };
            if !observations.is_empty() {
                return Ok(observations);
            }
        }
    }

    /// Reports existing bundles without a process, whose containers are starting.
    pub fn unstarted(&mut self) -> Result<Vec<Observation>, Error> {
        let all: Vec<ContainerId> = self.entries.keys().cloned().collect();
        let mut observations = Vec::new();
        for id in all {
            let bundle = self.directory(&id);
            let is_unstarted = bundle.is_ok_and(|bundle| file::is_unstarted(bundle.as_fd()));
            if is_unstarted && let Some(entry) = self.entries.get_mut(&id) {
                entry.request_owner();
                self.inspect(&id, &mut observations);
            }
        }
        Ok(observations)
    }

    /// Reports the mount and the first process of a container from now on, including existing ones. Returns
    /// [`Observation::Removed`] if the bundle does not exist.
    pub fn follow(&mut self, id: &ContainerId) -> Result<Vec<Observation>, Error> {
        let Ok(bundle) = self.directory(id) else {
            // The removal may still be in the queue; it is reported only once.
            return Ok(self
                .removed(id)
                .unwrap_or_else(|| vec![Observation::Removed(id.clone())]));
        };
        // Opened before the first check, so that no mount is missed.
        if self.mounts.is_none() {
            self.mounts = Some(Changes::open().map_err(Error::Mounts)?);
        }
        let entry = { self.entries.entry(id.clone()) }.or_insert_with(Entry::old);
        entry.follow(bundle);
        let mut observations = Vec::new();
        self.inspect(id, &mut observations);
        self.unwatch_mounts_if_idle();
        Ok(observations)
    }

    /// Stops reports about a container, except its removal.
    pub fn forget(&mut self, id: &ContainerId) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.forget();
            self.unwatch_if_read(id);
            self.unwatch_mounts_if_idle();
        }
    }

    /// Opens a bundle, with `O_PATH`.
    ///
    /// # Errors
    /// Those of open(2); `ELOOP` or `ENOTDIR` for a symbolic link.
    pub fn directory(&self, id: &ContainerId) -> io::Result<OwnedFd> {
        file::bundle(&self.path.join(id.as_str()))
    }

    /// Opens a container's root file system, with `O_PATH`. Close it soon, because the runtime cannot unmount an open
    /// file system.
    pub fn root(&self, id: &ContainerId) -> io::Result<OwnedFd> {
        root(self.directory(id)?.as_fd())
    }

    /// The first process of a container; None before it exists.
    pub fn init(&self, id: &ContainerId) -> Option<Pid> {
        init(self.directory(id).ok()?.as_fd())
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
