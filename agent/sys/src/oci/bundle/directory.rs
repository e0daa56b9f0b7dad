//! The directory of the bundles: created and removed bundles, and the removal of the directory itself.

use std::{collections::BTreeSet, fs, io};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InotifyEvent},
};
use usher_core::base::id::ContainerId;

use super::{
    Bundles, Error, Observation,
    entry::Entry,
    file,
    observation::{WATCHING, failed},
};
use crate::files::directory::Places;

/// Events of the directory.
const DIRECTORY: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(ENDED)
    .union(AddWatchFlags::IN_ONLYDIR);
/// Events after which the watch belongs to another directory.
const ENDED: AddWatchFlags = AddWatchFlags::IN_DELETE_SELF.union(AddWatchFlags::IN_MOVE_SELF);
/// Such events that the kernel reports unrequested.
const ENDED_UNREQUESTED: AddWatchFlags = AddWatchFlags::IN_UNMOUNT.union(AddWatchFlags::IN_IGNORED);
/// Events of a new bundle.
const CREATED: AddWatchFlags = AddWatchFlags::IN_CREATE.union(AddWatchFlags::IN_MOVED_TO);

impl Bundles {
    pub(super) fn handle_events(
        &mut self,
        events: &[InotifyEvent],
    ) -> Result<Vec<Observation>, Error> {
        let mut observations = Vec::new();
        let mut changed = BTreeSet::new();
        for event in events {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                self.rescan(&mut observations)?;
            } else if Some(event.wd) == self.directory {
                if event.mask.intersects(ENDED.union(ENDED_UNREQUESTED)) {
                    self.leave(&mut observations);
                    observations.extend(self.reenter()?);
                } else if let Some(id) = named(event) {
                    if event.mask.intersects(CREATED) {
                        let entry = { self.entries.entry(id.clone()) }.or_insert_with(Entry::new);
                        entry.request_owner();
                        changed.insert(id);
                    } else {
                        changed.remove(&id);
                        observations.extend(self.removed(&id).unwrap_or_default());
                    }
                }
            } else if let Some(id) = self.watched.get(&event.wd) {
                let name = event.name.as_deref().and_then(|name| name.to_str());
                if matches!(name, Some(file::CONFIG | file::INIT)) {
                    changed.insert(id.clone());
                }
            }
        }
        for id in &changed {
            self.inspect(id, &mut observations);
        }
        self.unwatch_mounts_if_idle();
        Ok(observations)
    }

    /// Watches the directory, or its parents if it does not exist. Returns whether it exists.
    pub(super) fn enter(&mut self) -> Result<bool, Error> {
        self.places = None;
        loop {
            let watch = self.watches.get_ref().0.add_watch(&self.path, DIRECTORY);
            match watch {
                Ok(watch) => {
                    self.directory = Some(watch);
                    self.places = None;
                    return Ok(true);
                }
                Err(Errno::ENOENT | Errno::ENOTDIR) if self.places.is_none() => {
                    // The directory may have been created before this watch, so the loop tries again.
                    self.places = Some(Places::open(&[&self.path])?);
                }
                Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(false),
                Err(errno) => return Err(failed(WATCHING, &self.path)(errno.into())),
            }
        }
    }

    /// Handles a possible creation of the directory. All bundles in it are new.
    pub(super) fn reenter(&mut self) -> Result<Vec<Observation>, Error> {
        let mut observations = Vec::new();
        if self.enter()? {
            self.rescan(&mut observations)?;
        }
        Ok(observations)
    }

    /// Handles the removal of the directory.
    fn leave(&mut self, observations: &mut Vec<Observation>) {
        if let Some(watch) = self.directory.take() {
            // Fails if the kernel has removed the watch with the directory.
            self.watches.get_ref().0.rm_watch(watch).ok();
        }
        let all: Vec<ContainerId> = self.entries.keys().cloned().collect();
        for id in all {
            observations.extend(self.removed(&id).unwrap_or_default());
        }
    }

    /// Reads everything again after lost events.
    fn rescan(&mut self, observations: &mut Vec<Observation>) -> Result<(), Error> {
        let there = self.list()?;
        let known: Vec<ContainerId> = self.entries.keys().cloned().collect();
        for id in known.iter().filter(|id| !there.contains(id)) {
            observations.extend(self.removed(id).unwrap_or_default());
        }
        for id in &there {
            { self.entries.entry(id.clone()) }.or_insert_with(Entry::new);
            self.inspect(id, observations);
        }
        Ok(())
    }

    pub(super) fn list(&self) -> Result<BTreeSet<ContainerId>, Error> {
        let failed = failed("listing", &self.path);
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            // An event of the directory's removal follows.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut all = BTreeSet::new();
        for entry in entries {
            let name = entry.map_err(&failed)?.file_name();
            all.extend(name.to_str().and_then(|name| ContainerId::parse(name).ok()));
        }
        Ok(all)
    }
}

fn named(event: &InotifyEvent) -> Option<ContainerId> {
    let name = event.name.as_ref()?.to_str()?;
    ContainerId::parse(name).ok()
}
