//! The directory that the bundles are in: what is made in it and taken away, and
//! its own end.

use std::{collections::BTreeSet, fs, io};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InotifyEvent},
};
use usher_core::base::id::ContainerId;

use super::{Bundles, Error, Sight, entry::Entry, file};
use crate::files::directory::Places;

/// What is wanted of the directory.
const DIRECTORY: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(ENDED)
    .union(AddWatchFlags::IN_ONLYDIR);
/// What tells that it is not that directory any more.
const ENDED: AddWatchFlags = AddWatchFlags::IN_DELETE_SELF.union(AddWatchFlags::IN_MOVE_SELF);
/// The same, without being asked for.
const ENDED_SO: AddWatchFlags = AddWatchFlags::IN_UNMOUNT.union(AddWatchFlags::IN_IGNORED);
/// After which there is a new bundle.
const MADE: AddWatchFlags = AddWatchFlags::IN_CREATE.union(AddWatchFlags::IN_MOVED_TO);

impl Bundles {
    pub(super) fn take(&mut self, events: &[InotifyEvent]) -> Result<Vec<Sight>, Error> {
        let mut sights = Vec::new();
        let mut changed = BTreeSet::new();
        for event in events {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                self.look_again(&mut sights)?;
            } else if Some(event.wd) == self.directory {
                if event.mask.intersects(ENDED.union(ENDED_SO)) {
                    self.leave(&mut sights);
                    sights.extend(self.enter_anew()?);
                } else if let Some(id) = named(event) {
                    if event.mask.intersects(MADE) {
                        let entry = { self.entries.entry(id.clone()) }.or_insert_with(Entry::new);
                        entry.ask();
                        changed.insert(id);
                    } else {
                        changed.remove(&id);
                        sights.extend(self.gone(&id).unwrap_or_default());
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
            self.look(id, &mut sights);
        }
        self.rest();
        Ok(sights)
    }

    /// Watches the directory, or the way to it. True when it is there.
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
                    // It may have been made before this is open.
                    self.places = Some(Places::open(&[&self.path])?);
                }
                Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(false),
                Err(errno) => return Err(Error::watch(&self.path, errno.into())),
            }
        }
    }

    /// What is there now was made since it was waited for.
    pub(super) fn enter_anew(&mut self) -> Result<Vec<Sight>, Error> {
        let mut sights = Vec::new();
        if self.enter()? {
            self.look_again(&mut sights)?;
        }
        Ok(sights)
    }

    /// The directory is not what it was.
    fn leave(&mut self, sights: &mut Vec<Sight>) {
        if let Some(watch) = self.directory.take() {
            // It may have ended with the directory.
            self.watches.get_ref().0.rm_watch(watch).ok();
        }
        let all: Vec<ContainerId> = self.entries.keys().cloned().collect();
        for id in all {
            sights.extend(self.gone(&id).unwrap_or_default());
        }
    }

    /// Looks at everything, after events were lost.
    fn look_again(&mut self, sights: &mut Vec<Sight>) -> Result<(), Error> {
        let there = self.list()?;
        let known: Vec<ContainerId> = self.entries.keys().cloned().collect();
        for id in known.iter().filter(|id| !there.contains(id)) {
            sights.extend(self.gone(id).unwrap_or_default());
        }
        for id in &there {
            { self.entries.entry(id.clone()) }.or_insert_with(Entry::new);
            self.look(id, sights);
        }
        Ok(())
    }

    pub(super) fn list(&self) -> Result<BTreeSet<ContainerId>, Error> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            // Its end will be told.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(source) => return Err(Error::list(&self.path, source)),
        };
        let mut all = BTreeSet::new();
        for entry in entries {
            let name = entry
                .map_err(|source| Error::list(&self.path, source))?
                .file_name();
            all.extend(name.to_str().and_then(|name| ContainerId::parse(name).ok()));
        }
        Ok(all)
    }
}

/// The container that an event in the directory is of.
fn named(event: &InotifyEvent) -> Option<ContainerId> {
    let name = event.name.as_ref()?.to_str()?;
    ContainerId::parse(name).ok()
}
