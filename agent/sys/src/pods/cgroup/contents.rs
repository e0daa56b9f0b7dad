//! The watched directories, and the pods and containers of their names.

use std::{collections::BTreeSet, ffi::OsStr, path::Path};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, WatchDescriptor},
};
use usher_core::{
    base::id::{ContainerKey, PodUid},
    node::cgroup,
};

use super::{
    Change, Error, Tree,
    place::{Level, Place},
    walk::directories,
};

/// Limit of a pod's containers; more are not reported.
const CONTAINERS: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Update {
    pub(super) changes: Vec<Change>,
    pub(super) errors: Vec<Error>,
    pub(super) overflowed: bool,
}

impl Tree {
    /// Watches a directory, then lists it.
    pub(super) fn enter(&mut self, level: &Level, path: &Path, update: &mut Update) {
        let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_ONLYDIR;
        let watches = self.watches.as_ref().map(|watches| &watches.get_ref().0);
        match watches.map(|watches| watches.add_watch(path, flags)) {
            // The whole tree is listed again until there is an instance.
            None => {}
            Some(Ok(watch)) => {
                self.watched
                    .insert(watch, Place::new(level.clone(), path.to_owned()));
            }
            Some(Err(Errno::ENOENT)) => return,
            Some(Err(errno)) => update.errors.push(Error::Watch {
                path: path.to_owned(),
                source: errno.into(),
            }),
        }
        match directories(path) {
            Ok(found) => {
                for (name, _path) in found {
                    self.appeared(level, path, name.as_ref(), update);
                }
            }
            Err(error) => update.errors.push(error),
        }
    }

    /// Handles a directory that exists in a watched directory.
    pub(super) fn appeared(
        &mut self,
        level: &Level,
        path: &Path,
        name: &OsStr,
        update: &mut Update,
    ) {
        let path = path.join(name);
        let Some(name) = name.to_str() else { return };
        match level {
            Level::Root if cgroup::is_kubepods(name) => self.enter(&Level::Kubepods, &path, update),
            Level::Kubepods if cgroup::is_qos(name) => self.enter(&Level::Qos, &path, update),
            Level::Kubepods | Level::Qos => {
                let Some(uid) = cgroup::pod(name) else { return };
                if !self.known.contains_key(&uid) {
                    self.known.insert(uid.clone(), BTreeSet::new());
                    update.changes.push(Change::PodAppeared(uid.clone()));
                }
                self.enter(&Level::Pod(uid), &path, update);
            }
            Level::Pod(pod) => {
                let Some(id) = cgroup::container(name) else {
                    return;
                };
                let known = self.known.entry(pod.clone()).or_default();
                if known.len() < CONTAINERS && known.insert(id.clone()) {
                    let pod = pod.clone();
                    let key = ContainerKey { pod, id };
                    update.changes.push(Change::ContainerAppeared(key, path));
                }
            }
            Level::Root => {}
        }
    }

    /// Handles a directory that was removed from a watched directory.
    pub(super) fn removed(&mut self, level: &Level, name: &OsStr, update: &mut Update) {
        let Some(name) = name.to_str() else { return };
        match level {
            Level::Root => {}
            Level::Kubepods | Level::Qos => {
                if let Some(uid) = cgroup::pod(name) {
                    self.pod_removed(&uid, update);
                }
            }
            Level::Pod(pod) => {
                let Some(id) = cgroup::container(name) else {
                    return;
                };
                let known = self.known.get_mut(pod);
                if known.is_some_and(|containers| containers.remove(&id)) {
                    let pod = pod.clone();
                    let key = ContainerKey { pod, id };
                    update.changes.push(Change::ContainerGone(key));
                }
            }
        }
    }

    /// Ends the watch of a removed pod. The kernel does not end it: a removed directory of a cgroup file system keeps
    /// its inode as long as it is watched.
    fn unwatch_pod(&mut self, uid: &PodUid) {
        let is_of_pod = |level: &Level| matches!(level, Level::Pod(of) if of == uid);
        let watches: Vec<WatchDescriptor> = self
            .watched
            .iter()
            // A static pod may have been created again with the same UID.
            .filter(|(_watch, place)| is_of_pod(&place.level) && !place.path.exists())
            .map(|(watch, _place)| *watch)
            .collect();
        for watch in watches {
            self.watched.remove(&watch);
            self.unwatch(watch);
        }
    }

    pub(super) fn unwatch(&self, watch: WatchDescriptor) {
        if let Some(watches) = &self.watches {
            // Fails if the watch has already ended.
            watches.get_ref().0.rm_watch(watch).ok();
        }
    }

    fn pod_removed(&mut self, uid: &PodUid, update: &mut Update) {
        self.unwatch_pod(uid);
        let Some(containers) = self.known.remove(uid) else {
            return;
        };
        for id in containers {
            let pod = uid.clone();
            update
                .changes
                .push(Change::ContainerGone(ContainerKey { pod, id }));
        }
        update.changes.push(Change::PodGone(uid.clone()));
    }

    /// Lists the whole tree after lost events, and reports the differences. Reports no removals in a directory that
    /// could not be listed.
    pub(super) fn list_all(&mut self, update: &mut Update) {
        let before = std::mem::take(&mut self.known);
        let mut now = Update::default();
        self.enter(&Level::Root, &self.root.clone(), &mut now);
        if now.errors.iter().any(Error::hides_existing) {
            for (uid, containers) in &before {
                let known = self.known.entry(uid.clone()).or_default();
                known.extend(containers.iter().cloned());
            }
        }
        update.errors.append(&mut now.errors);
        for (uid, containers) in &before {
            let remaining = self.known.get(uid);
            for id in containers {
                if !remaining.is_some_and(|remaining| remaining.contains(id)) {
                    let (pod, id) = (uid.clone(), id.clone());
                    update
                        .changes
                        .push(Change::ContainerGone(ContainerKey { pod, id }));
                }
            }
            if remaining.is_none() {
                update.changes.push(Change::PodGone(uid.clone()));
                self.unwatch_pod(uid);
            }
        }
        update
            .changes
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
