//! One bundle: the state of its reports, and what is still missing.

use std::os::fd::{AsFd, OwnedFd};

use nix::sys::inotify::{AddWatchFlags, WatchDescriptor};
use usher_core::base::id::ContainerId;

use super::{Bundles, Observation, file, mount};

/// Events after which the files of the bundle are read.
const FILES: AddWatchFlags = AddWatchFlags::IN_CLOSE_WRITE
    .union(AddWatchFlags::IN_MODIFY)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_ONLYDIR);

#[derive(Debug)]
pub(super) struct Entry {
    owner: Owner,
    followed: Option<Followed>,
    watch: Option<WatchDescriptor>,
}

/// Whether the owner of the bundle, a pod and container, was reported.
#[derive(Debug, PartialEq)]
enum Owner {
    /// The bundle existed before the watch and was not requested.
    NotRequested,
    /// Not readable yet, or not readable for the last reported reason.
    Unknown(Option<String>),
    Reported,
}

#[derive(Debug)]
struct Followed {
    /// Kept open, because it is checked after each change of mounts.
    bundle: OwnedFd,
    is_mounted: bool,
    has_init: bool,
}

impl Entry {
    pub(super) fn old() -> Self {
        Self {
            owner: Owner::NotRequested,
            followed: None,
            watch: None,
        }
    }

    pub(super) fn new() -> Self {
        Self {
            owner: Owner::Unknown(None),
            ..Self::old()
        }
    }

    /// Requests the owner of a bundle that existed before the watch.
    pub(super) fn request_owner(&mut self) {
        if self.owner == Owner::NotRequested {
            self.owner = Owner::Unknown(None);
        }
    }

    pub(super) fn follow(&mut self, bundle: OwnedFd) {
        self.followed = Some(Followed {
            bundle,
            is_mounted: false,
            has_init: false,
        });
    }

    pub(super) fn forget(&mut self) {
        self.followed = None;
    }

    fn awaits_mount(&self) -> bool {
        self.followed.as_ref().is_some_and(|one| !one.is_mounted)
    }

    /// Whether a file of the bundle has not been read yet.
    fn awaits_file(&self) -> bool {
        let init = self.followed.as_ref().is_some_and(|one| !one.has_init);
        init || matches!(self.owner, Owner::Unknown(_))
    }

    /// Reports the removal of a bundle that was reported or is followed.
    fn end(self, id: &ContainerId) -> Vec<Observation> {
        let is_known = self.owner == Owner::Reported || self.followed.is_some();
        is_known
            .then(|| Observation::Removed(id.clone()))
            .into_iter()
            .collect()
    }
}

impl Followed {
    fn inspect(&mut self, id: &ContainerId, observations: &mut Vec<Observation>) {
        self.check_mount(id, observations);
        if !self.has_init
            && let Some(pid) = file::init(self.bundle.as_fd())
        {
            self.has_init = true;
            observations.push(Observation::Init(id.clone(), pid));
        }
    }

    fn check_mount(&mut self, id: &ContainerId, observations: &mut Vec<Observation>) {
        if !self.is_mounted
            && let Some(mounted) = mount::of_bundle(self.bundle.as_fd())
        {
            self.is_mounted = true;
            observations.push(Observation::Mounted(id.clone(), mounted));
        }
    }
}

impl Bundles {
    /// Reports all news of a bundle, and watches it while something is missing.
    pub(super) fn inspect(&mut self, id: &ContainerId, observations: &mut Vec<Observation>) {
        let bundle = self.directory(id);
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        if !entry.awaits_file() && !entry.awaits_mount() {
            return;
        }
        let bundle = match bundle {
            Ok(bundle) => bundle,
            // An event of the bundle's removal follows.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                return entry.report_unreadable(id, format!("opening it: {error}"), observations);
            }
        };
        // Added before the first read, so that no write is missed.
        if entry.awaits_file() && entry.watch.is_none() {
            let watches = &self.watches.get_ref().0;
            match watches.add_watch(&*file::path_of(&bundle), FILES) {
                Ok(watch) => {
                    entry.watch = Some(watch);
                    self.watched.insert(watch, id.clone());
                }
                Err(errno) => {
                    entry.report_unreadable(id, format!("watching it: {errno}"), observations)
                }
            }
        }
        if matches!(entry.owner, Owner::Unknown(_)) {
            match file::config(bundle.as_fd()) {
                Ok(Some(owner)) => {
                    entry.owner = Owner::Reported;
                    observations.push(Observation::Created(id.clone(), owner));
                }
                Ok(None) => {}
                Err(why) => entry.report_unreadable(id, why, observations),
            }
        }
        if let Some(followed) = &mut entry.followed {
            followed.inspect(id, observations);
        }
        self.unwatch_if_read(id);
    }

    /// After a change of mounts, checks for root file systems only.
    pub(super) fn check_mounts(&mut self) -> Vec<Observation> {
        let mut observations = Vec::new();
        for (id, entry) in &mut self.entries {
            if let Some(followed) = &mut entry.followed {
                followed.check_mount(id, &mut observations);
            }
        }
        self.unwatch_mounts_if_idle();
        observations
    }

    /// Stops watching a bundle whose files were all read.
    pub(super) fn unwatch_if_read(&mut self, id: &ContainerId) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        if !entry.awaits_file()
            && let Some(watch) = entry.watch.take()
        {
            self.unwatch(watch);
        }
    }

    /// Stops watching mounts when no followed bundle needs them.
    pub(super) fn unwatch_mounts_if_idle(&mut self) {
        if !self.entries.values().any(Entry::awaits_mount) {
            self.mounts = None;
        }
    }

    /// Handles the removal of a bundle; None for an unknown one.
    pub(super) fn removed(&mut self, id: &ContainerId) -> Option<Vec<Observation>> {
        let entry = self.entries.remove(id)?;
        if let Some(watch) = entry.watch {
            self.unwatch(watch);
        }
        Some(entry.end(id))
    }

    fn unwatch(&mut self, watch: WatchDescriptor) {
        self.watched.remove(&watch);
        // Fails if the kernel has removed the watch with the bundle.
        self.watches.get_ref().0.rm_watch(watch).ok();
    }
}

impl Entry {
    /// Reports why the owner is not readable, once per reason.
    fn report_unreadable(
        &mut self,
        id: &ContainerId,
        why: String,
        observations: &mut Vec<Observation>,
    ) {
        if self.owner != Owner::Unknown(Some(why.clone())) {
            observations.push(Observation::Unreadable(id.clone(), why.clone()));
        }
        if matches!(self.owner, Owner::Unknown(_)) {
            self.owner = Owner::Unknown(Some(why));
        }
    }
}
