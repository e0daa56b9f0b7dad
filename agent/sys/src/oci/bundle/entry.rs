//! One bundle: what has been told of it, and what is still to be seen.

use std::os::fd::{AsFd, OwnedFd};

use nix::sys::inotify::{AddWatchFlags, WatchDescriptor};
use usher_core::base::id::ContainerId;

use super::{Bundles, Sight, file, mount};

/// After which a file of the bundle is read.
const FILES: AddWatchFlags = AddWatchFlags::IN_CLOSE_WRITE
    .union(AddWatchFlags::IN_MODIFY)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_ONLYDIR);

#[derive(Debug)]
pub(super) struct Entry {
    whose: Whose,
    followed: Option<Followed>,
    watch: Option<WatchDescriptor>,
}

/// What is known of whose it is.
#[derive(Debug, PartialEq)]
enum Whose {
    /// It was there at the beginning; nobody has asked.
    Unasked,
    /// It cannot be told yet, or not at all for the reason that was told last.
    Wanted(Option<String>),
    Told,
}

#[derive(Debug)]
struct Followed {
    /// Kept open, since it is looked at whenever anything is mounted.
    bundle: OwnedFd,
    is_mounted: bool,
    has_init: bool,
}

impl Entry {
    pub(super) fn old() -> Self {
        Self {
            whose: Whose::Unasked,
            followed: None,
            watch: None,
        }
    }

    pub(super) fn new() -> Self {
        Self {
            whose: Whose::Wanted(None),
            ..Self::old()
        }
    }

    /// Has it told whose it is, if it was not.
    pub(super) fn ask(&mut self) {
        if self.whose == Whose::Unasked {
            self.whose = Whose::Wanted(None);
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

    /// Whether a file of it is still to be read.
    fn awaits_file(&self) -> bool {
        let init = self.followed.as_ref().is_some_and(|one| !one.has_init);
        init || matches!(self.whose, Whose::Wanted(_))
    }

    /// Tells that it is gone, to those who know of it.
    fn end(self, id: &ContainerId) -> Vec<Sight> {
        let is_known = self.whose == Whose::Told || self.followed.is_some();
        is_known
            .then(|| Sight::Gone(id.clone()))
            .into_iter()
            .collect()
    }
}

impl Followed {
    fn look(&mut self, id: &ContainerId, sights: &mut Vec<Sight>) {
        self.look_for_mount(id, sights);
        if !self.has_init
            && let Some(pid) = file::init(self.bundle.as_fd())
        {
            self.has_init = true;
            sights.push(Sight::Init(id.clone(), pid));
        }
    }

    fn look_for_mount(&mut self, id: &ContainerId, sights: &mut Vec<Sight>) {
        if !self.is_mounted
            && let Some(mounted) = mount::of_bundle(self.bundle.as_fd())
        {
            self.is_mounted = true;
            sights.push(Sight::Mounted(id.clone(), mounted));
        }
    }
}

impl Bundles {
    /// Tells what there is to tell of a bundle, and watches it for the rest.
    pub(super) fn look(&mut self, id: &ContainerId, sights: &mut Vec<Sight>) {
        let bundle = self.directory(id);
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        if !entry.awaits_file() && !entry.awaits_mount() {
            return;
        }
        let bundle = match bundle {
            Ok(bundle) => bundle,
            // Its end will be told.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => return entry.tell(id, format!("opening it: {error}"), sights),
        };
        // Before anything is read.
        if entry.awaits_file() && entry.watch.is_none() {
            let watches = &self.watches.get_ref().0;
            match watches.add_watch(&*file::path_of(&bundle), FILES) {
                Ok(watch) => {
                    entry.watch = Some(watch);
                    self.watched.insert(watch, id.clone());
                }
                Err(errno) => entry.tell(id, format!("watching it: {errno}"), sights),
            }
        }
        if matches!(entry.whose, Whose::Wanted(_)) {
            match file::config(bundle.as_fd()) {
                Ok(Some(whose)) => {
                    entry.whose = Whose::Told;
                    sights.push(Sight::Made(id.clone(), whose));
                }
                Ok(None) => {}
                Err(why) => entry.tell(id, why, sights),
            }
        }
        if let Some(followed) = &mut entry.followed {
            followed.look(id, sights);
        }
        self.settle(id);
    }

    /// Looks only for what was waited for when something was mounted.
    pub(super) fn look_for_mounts(&mut self) -> Vec<Sight> {
        let mut sights = Vec::new();
        for (id, entry) in &mut self.entries {
            if let Some(followed) = &mut entry.followed {
                followed.look_for_mount(id, &mut sights);
            }
        }
        self.rest();
        sights
    }

    /// Watches a bundle no longer than there is something to see.
    pub(super) fn settle(&mut self, id: &ContainerId) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        if !entry.awaits_file()
            && let Some(watch) = entry.watch.take()
        {
            self.unwatch(watch);
        }
    }

    /// Hears of mounts no longer than one is waited for.
    pub(super) fn rest(&mut self) {
        if !self.entries.values().any(Entry::awaits_mount) {
            self.mounts = None;
        }
    }

    /// A bundle is gone; None for one that was not there.
    pub(super) fn gone(&mut self, id: &ContainerId) -> Option<Vec<Sight>> {
        let entry = self.entries.remove(id)?;
        if let Some(watch) = entry.watch {
            self.unwatch(watch);
        }
        Some(entry.end(id))
    }

    fn unwatch(&mut self, watch: WatchDescriptor) {
        self.watched.remove(&watch);
        // It may have ended with the bundle.
        self.watches.get_ref().0.rm_watch(watch).ok();
    }
}

impl Entry {
    /// Says why it does not tell whose it is, once for each reason.
    fn tell(&mut self, id: &ContainerId, why: String, sights: &mut Vec<Sight>) {
        if self.whose != Whose::Wanted(Some(why.clone())) {
            sights.push(Sight::Unreadable(id.clone(), why.clone()));
        }
        if matches!(self.whose, Whose::Wanted(_)) {
            self.whose = Whose::Wanted(Some(why));
        }
    }
}
