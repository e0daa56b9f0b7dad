//! Handles the holder's messages, and creates events from them.

use std::{collections::BTreeSet, time::Duration};

use usher_client::error_chain::chain;
use usher_core::{
    Event,
    base::id::{ContainerId, Pid},
    start::{News, StartResult},
};
use usher_sys::oci::bundle;

use super::{Marked, Starts, holder_process::HolderEvent};

/// Limit of the kept denials of unknown containers.
const MAX_UNATTRIBUTED: usize = 64;

impl Starts {
    pub(super) fn holder_reported(&mut self, event: HolderEvent) -> Vec<Event> {
        let news = match event {
            HolderEvent::News(news) => news,
            HolderEvent::Ended => {
                let mut events = self.holder_ended();
                events.extend(self.stops.holder_ended());
                return events;
            }
            HolderEvent::PauseEnded => return vec![Event::CanHoldStarts],
        };
        match news {
            News::Ready => self.stops.holder_ready(&mut self.holder),
            News::StopArmed { .. }
            | News::StopUnable { .. }
            | News::StopHeld { .. }
            | News::StopReleased { .. } => self.stops.reported(&mut self.holder, news),
            News::Denied { container, reason } => self.exec_denied(container.as_ref(), &reason),
            News::Marked { container } => self.container_marked(&container),
            News::Held { container } => {
                self.denials.held();
                self.event(&container, StartResult::Held)
            }
            News::Unable { container, reason } => {
                let events = self.event(&container, StartResult::Unable(reason));
                self.remove(&container);
                events
            }
            News::Released {
                container,
                held,
                at_limit,
            } => {
                if at_limit {
                    // The holder released the start at its limit, so its root's mark is obsolete.
                    self.send_release(&container);
                }
                let Some(marked) = self.marked.get(&container) else {
                    return Vec::new();
                };
                let started = marked
                    .init
                    .filter(|_pid| held.is_none())
                    .map(|pid| self.has_started(&container, pid));
                let result = match (started, self.unattributed.is_empty()) {
                    // The init process exited without an exec event, so the unattributed denial is its own.
                    (Some(None), false) => StartResult::Denied(self.unattributed.remove(0)),
                    _ => StartResult::Released {
                        held,
                        at_limit,
                        ran: started == Some(Some(true)),
                    },
                };
                let events = self.event(&container, result);
                self.remove(&container);
                events
            }
        }
    }

    /// Reports all starts as lost: the kernel has released them.
    fn holder_ended(&mut self) -> Vec<Event> {
        self.unattributed.clear();
        self.marked
            .drain()
            .map(|(_id, marked)| marked.event(StartResult::Lost))
            .collect()
    }

    /// Handles an exec that the kernel denied, because it could not open the program for the holder. An unknown
    /// container is identified later by its exit.
    fn exec_denied(&mut self, container: Option<&ContainerId>, reason: &str) -> Vec<Event> {
        let marked = container.and_then(|id| self.remove(id));
        let pod = marked.as_ref().map(|marked| marked.key.pod.clone());
        tracing::warn!(
            container_id = container.map(ContainerId::as_str),
            pod_uid = pod.as_ref().map(usher_core::base::id::PodUid::as_str),
            reason,
            "the kernel denied an exec, because it could not open the program for the holder"
        );
        self.holder.count_denied_exec();
        let mut events = Vec::new();
        match marked {
            Some(marked) => events.push(marked.event(StartResult::Denied(reason.to_owned()))),
            None if self.unattributed.len() < MAX_UNATTRIBUTED => {
                self.unattributed.push(reason.to_owned());
            }
            None => {}
        }
        let pods = match pod {
            Some(pod) => BTreeSet::from([pod]),
            None => self
                .marked
                .values()
                .map(|marked| marked.key.pod.clone())
                .collect(),
        };
        // The execs of one moment may be denied together, and must not lengthen the pause.
        if !self.holder.is_paused()
            && let Some(pause) = self.denials.denied(pods)
        {
            events.push(self.pause(pause, reason));
        }
        events
    }

    /// Pauses the holding of starts, because the kernel denies the execs of several pods in a row. The engine withdraws
    /// every start.
    fn pause(&mut self, pause: Duration, reason: &str) -> Event {
        self.holder.pause_starts(pause);
        Event::CannotHoldStarts(format!(
            "fanotify: the kernel cannot open the programs of several pods in a row for usher ({reason}); the agent retries in {} min",
            pause.as_secs() / 60
        ))
    }

    /// Handles a new mark, under which the holder receives every exec. If the program already runs, the next exec is
    /// not the start, so the agent releases the container.
    fn container_marked(&mut self, id: &ContainerId) -> Vec<Event> {
        let bundles = self.bundles.as_ref();
        if let Some(pid) = bundles.and_then(|bundles| bundles.init(id))
            && self.has_started(id, pid) == Some(true)
        {
            if let Some(marked) = self.marked.get_mut(id) {
                marked.init = Some(pid);
            }
            self.send_release(id);
        }
        self.event(id, StartResult::Marked)
    }

    fn event(&self, container: &ContainerId, result: StartResult) -> Vec<Event> {
        let marked = self.marked.get(container);
        marked
            .map(|marked| marked.event(result))
            .into_iter()
            .collect()
    }

    fn remove(&mut self, container: &ContainerId) -> Option<Marked> {
        let marked = self.marked.remove(container)?;
        if let Some(bundles) = &mut self.bundles {
            bundles.forget(container);
        }
        if self.marked.is_empty() {
            self.unattributed.clear();
        }
        Some(marked)
    }

    /// Whether a container's init process runs its program without an exec event; None if it has exited.
    fn has_started(&self, id: &ContainerId, init: Pid) -> Option<bool> {
        let started = bundle::started(&self.proc, init);
        let started = started.inspect_err(|error| {
            tracing::debug!(container_id = %id, error = %chain(error), "could not read what a container executes");
        });
        started.ok()
    }
}
