//! What is in the directories: which are watched, and what their names say.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use nix::{errno::Errno, sys::inotify::AddWatchFlags};
use usher_core::{
    base::id::{ContainerKey, PodUid},
    node::cgroup,
};

use super::{Change, Error, Tree};

/// What a watched directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Where the kubepods directory is, or will be.
    Root,
    Kubepods,
    /// The pods of one QoS class.
    Qos,
    Pod(PodUid),
}

#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) changes: Vec<Change>,
    pub(super) errors: Vec<Error>,
    /// The kernel dropped events.
    pub(super) overflowed: bool,
}

impl Tree {
    /// Watches a directory, then lists it.
    pub(super) fn enter(&mut self, place: &Place, path: PathBuf, told: &mut Told) {
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
    pub(super) fn found(&mut self, place: &Place, path: &Path, name: &OsStr, told: &mut Told) {
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
    pub(super) fn lost(&mut self, place: &Place, name: &OsStr, told: &mut Told) {
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
    /// gone, and what is there and not known has appeared. Where a directory
    /// could not be listed nothing is taken for gone.
    pub(super) fn list_again(&mut self, told: &mut Told) {
        let before = std::mem::take(&mut self.known);
        let mut now = Told::default();
        self.enter(&Place::Root, self.root.clone(), &mut now);
        if now.errors.iter().any(Error::hides) {
            for (uid, containers) in &before {
                let known = self.known.entry(uid.clone()).or_default();
                known.extend(containers.iter().cloned());
            }
        }
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
