//! Fanotify marks of containers.

use std::{
    mem,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use usher_client::error_chain::chain;
use usher_core::{
    base::id::{ContainerId, Pid},
    start::{News, Release},
};
use usher_sys::oci::{
    bundle,
    fanotify::{self, Mark, Waiting},
};

use super::Loop;

/// The files of a marked container.
#[derive(Debug)]
pub(super) struct Place {
    bundle: OwnedFd,
    volumes: Vec<OwnedFd>,
}

impl Place {
    /// The container's init process; None before there is one.
    pub(super) fn init(&self) -> Option<Pid> {
        bundle::init(self.bundle.as_fd())
    }
}

impl Loop {
    pub(super) fn mark(
        &mut self,
        container: ContainerId,
        limit: Duration,
        descriptors: Vec<OwnedFd>,
    ) {
        let mut descriptors = descriptors.into_iter();
        let (Some(bundle), Some(root)) = (descriptors.next(), descriptors.next()) else {
            return self.send(News::unable(container, "the order has no descriptors"));
        };
        // Insert before the mark, so that an exec right after the mark belongs to this container.
        let volumes = Vec::new();
        self.holder.mark(container.clone(), limit);
        self.places
            .insert(container.clone(), Place { bundle, volumes });
        match self.group.mark(Mark::FileSystem, root.as_fd()) {
            Ok(()) => self.send(News::Marked { container }),
            Err(error) => {
                let now = self.now();
                let released = self.holder.release(now, &container);
                if let Some((exec, _held)) = released.and_then(|released| released.held) {
                    // Otherwise the kernel releases it with the group.
                    self.group.allow(exec).ok();
                }
                self.places.remove(&container);
                self.send(News::unable(container, &chain(&error)));
            }
        }
    }

    pub(super) fn mark_volumes(&mut self, container: &ContainerId, descriptors: Vec<OwnedFd>) {
        let Some(place) = self.places.get_mut(container) else {
            return;
        };
        // A start that is held needs no more marks.
        let is_held = self.holder.is_held(container);
        for volume in descriptors.into_iter().filter(|_| !is_held) {
            match self.group.mark(Mark::Mount, volume.as_fd()) {
                Ok(()) => place.volumes.push(volume),
                // A program on this volume starts unheld.
                Err(error) => {
                    tracing::debug!(%container, error = %chain(&error), "could not mark a volume");
                }
            }
        }
        let container = container.clone();
        self.send(News::VolumesMarked { container });
    }

    /// Removes the marks of a container, whose other execs are not held. The hold of its start continues.
    pub(super) fn remove_marks(&mut self, container: &ContainerId) {
        let Some(place) = self.places.get_mut(container) else {
            return;
        };
        let volumes = mem::take(&mut place.volumes);
        // An unmounted root has no mark.
        if let Ok(root) = bundle::root(place.bundle.as_fd()) {
            self.unmark(Mark::FileSystem, &root);
        }
        for volume in volumes {
            self.unmark(Mark::Mount, &volume);
        }
    }

    /// Releases a start, then removes its marks.
    ///
    /// # Errors
    /// If the reply fails. This process then exits, and the kernel releases the start.
    pub(super) fn release(
        &mut self,
        released: Release<Waiting>,
        at_limit: bool,
    ) -> Result<(), fanotify::Error> {
        let Release { container, held } = released;
        let held = held.map(|(exec, held)| (self.group.allow(exec), held));
        let (replied, held) = held.unzip();
        self.send(News::Released {
            container: container.clone(),
            held,
            at_limit,
        });
        let place = self.places.remove(&container);
        for volume in place.into_iter().flat_map(|place| place.volumes) {
            self.unmark(Mark::Mount, &volume);
        }
        replied.unwrap_or(Ok(()))
    }

    pub(super) fn unmark(&self, kind: Mark, descriptor: &OwnedFd) {
        if let Err(error) = self.group.unmark(kind, descriptor.as_fd()) {
            // The kernel removes the mark with its file system.
            tracing::debug!(error = %chain(&error), "could not remove a mark; the holder allows every exec there");
        }
    }
}
