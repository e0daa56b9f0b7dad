//! Held stop signals: the runtime's `kill` command opens the container's state, and the holder delays the open.
//!
//! Opens and execs have separate groups. The only file opened here is `/proc/PID/cmdline`. Once a stop signal waits, the
//! mark is removed, so that the runtime's other commands are not delayed.

use std::{
    collections::BTreeMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use anyhow::Context;
use usher_client::error_chain::chain;
use usher_core::{
    base::{id::ContainerId, time::Timestamp},
    linger::stopped_container,
    start::{Holder, News, Release, Verdict},
};
use usher_sys::oci::{
    fanotify::{self, Group, Mark, Waiting},
    runtime_state,
};

use super::Loop;

#[derive(Debug, Default)]
pub(super) struct Stops {
    /// None until the first container is armed.
    group: Option<Group>,
    waiting: Holder<Waiting>,
    /// The directories with a mark.
    marked: BTreeMap<ContainerId, OwnedFd>,
}

impl Stops {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn group(&self) -> Option<BorrowedFd<'_>> {
        self.group.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.waiting.next_due()
    }

    /// Releases all stop signals. Returns the number of those that waited.
    pub(super) fn end(&mut self, now: Timestamp) -> usize {
        let released = self.waiting.end(now);
        released.iter().filter(|one| one.held.is_some()).count()
    }

    fn arm(
        &mut self,
        container: &ContainerId,
        limit: Duration,
        directory: OwnedFd,
    ) -> Result<(), fanotify::Error> {
        let group = match self.group.take() {
            Some(group) => group,
            None => Group::for_opens()?,
        };
        let group = self.group.insert(group);
        let marked = group.mark(Mark::Directory, directory.as_fd());
        if marked.is_ok() {
            self.waiting.mark(container.clone(), limit);
            self.marked.insert(container.clone(), directory);
        }
        marked
    }

    fn unmark(&mut self, container: &ContainerId) {
        if let (Some(group), Some(directory)) = (&self.group, self.marked.remove(container))
            && let Err(error) = group.unmark(Mark::Directory, directory.as_fd())
        {
            // The kernel removes the mark with its directory.
            tracing::debug!(%container, error = %chain(&error), "could not remove the mark of a runtime's state");
        }
    }

    /// Replies to each open in the queue, or holds it. Returns the containers whose stop signal is now held.
    fn reply(&mut self, now: Timestamp) -> Result<Vec<ContainerId>, fanotify::Error> {
        let Self { group, waiting, .. } = self;
        let Some(group) = group else {
            return Ok(Vec::new());
        };
        let (held, replied) = super::reply(group, |open| {
            let command_line = runtime_state::command_line(open.pid);
            match stopped_container(&command_line) {
                Some(container) => waiting.hold(now, container, open),
                None => Verdict::Allow(open),
            }
        });
        match replied {
            Err(fanotify::Error::Denied { source, .. }) => {
                tracing::warn!(error = %chain(&source), "the kernel denied a runtime the state of a container, because it could not open it for the holder");
            }
            replied => replied?,
        }
        Ok(held)
    }
}

impl Loop {
    pub(super) fn arm_stop(
        &mut self,
        container: ContainerId,
        limit: Duration,
        descriptors: Vec<OwnedFd>,
    ) {
        let Some(directory) = descriptors.into_iter().next() else {
            return self.send(News::stop_unable(container, "the order has no descriptor"));
        };
        if self.stops.waiting.is_held(&container) {
            // Updates the limit: the deletion's grace period differs from that of the pod's spec.
            self.stops.waiting.mark(container.clone(), limit);
            return self.send(News::StopArmed { container });
        }
        match self.stops.arm(&container, limit, directory) {
            Ok(()) => self.send(News::StopArmed { container }),
            Err(error) => self.send(News::stop_unable(container, &chain(&error))),
        }
    }

    /// After an error the process exits, so that the kernel releases the runtime's commands.
    pub(super) fn reply_to_opens(&mut self) -> anyhow::Result<()> {
        let now = self.now();
        let held = self.stops.reply(now).context("replying to an open")?;
        for container in held {
            self.stops.unmark(&container);
            self.send(News::StopHeld { container });
        }
        Ok(())
    }

    pub(super) fn release_stop(
        &mut self,
        now: Timestamp,
        container: &ContainerId,
    ) -> anyhow::Result<()> {
        match self.stops.waiting.release(now, container) {
            Some(released) => self.stop_released(released, false),
            None => Ok(()),
        }
    }

    pub(super) fn release_overdue_stops(&mut self, now: Timestamp) -> anyhow::Result<()> {
        let overdue = self.stops.waiting.overdue(now);
        overdue
            .into_iter()
            .try_for_each(|released| self.stop_released(released, true))
    }

    fn stop_released(&mut self, released: Release<Waiting>, at_limit: bool) -> anyhow::Result<()> {
        let Release { container, held } = released;
        // Before the reply, so that the command does not open a marked directory again.
        self.stops.unmark(&container);
        let replied = match (held, &self.stops.group) {
            (Some((open, held)), Some(group)) => group.allow(open).map(|()| Some(held)),
            _ => Ok(None),
        };
        let held = replied.context("releasing a stop signal")?;
        self.send(News::StopReleased {
            container,
            held,
            at_limit,
        });
        Ok(())
    }
}
