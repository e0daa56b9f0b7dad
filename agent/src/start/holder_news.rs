//! Handles the holder's messages, and creates events from them.

use std::{collections::BTreeSet, time::Duration};

use usher_core::{
    Event,
    base::id::{ContainerId, Pid},
    start::{News, StartResult},
};

use super::{
    Marked, Starts,
    holder_process::HolderEvent,
    reader::{Occasion, Program},
};

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
            HolderEvent::PauseEnded => return vec![Event::StartSupport(Ok(()))],
        };
        match news {
            News::Ready => self.stops.holder_ready(&mut self.holder),
            News::StopArmed { .. }
            | News::StopUnable { .. }
            | News::StopHeld { .. }
            | News::StopReleased { .. } => self.stops.reported(&mut self.holder, news),
            News::Denied { container, reason } => self.exec_denied(container.as_ref(), &reason),
            News::Marked { container } => self.container_marked(&container),
            News::VolumesMarked { container } => {
                // A program on a volume may have been executed before.
                let init = self.marked.get(&container).and_then(|marked| marked.init);
                self.read_marked(&container, init);
                Vec::new()
            }
            News::Held { container } => {
                self.denials.held();
                if let Some(marked) = self.marked.get_mut(&container) {
                    marked.is_held = true;
                }
                self.event(&container, StartResult::Held)
            }
            News::Unable { container, reason } => {
                self.ended(&container, StartResult::Unable(reason))
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
                let marked = self.marked.get(&container);
                // Its program was executed unheld from a volume, and the exec that was held is one of that program.
                let is_missed = !at_limit && marked.is_some_and(|marked| marked.has_started);
                let held = held.filter(|_| !is_missed);
                let init = marked.and_then(|marked| Some((marked.key.clone(), marked.init?)));
                match (held, init) {
                    (None, Some((key, init))) => {
                        let occasion = Occasion::Released { at_limit };
                        self.reader.read_program(key, init, occasion);
                        Vec::new()
                    }
                    _ => {
                        let ran = false;
                        let result = StartResult::Released {
                            held,
                            at_limit,
                            ran,
                        };
                        self.ended(&container, result)
                    }
                }
            }
        }
    }

    /// Reports the last event of a start.
    fn ended(&mut self, container: &ContainerId, result: StartResult) -> Vec<Event> {
        let events = self.event(container, result);
        self.remove(container);
        events
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
                // The mark of a held container is removed.
                .filter(|marked| !marked.is_held)
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
        Event::StartSupport(Err(format!(
            "fanotify: the kernel cannot open the programs of several pods in a row for usher ({reason}); the agent retries in {} min",
            pause.as_secs() / 60
        )))
    }

    /// Handles a new mark, under which the holder receives every exec.
    fn container_marked(&mut self, id: &ContainerId) -> Vec<Event> {
        let init = self.bundles.as_ref().and_then(|bundles| bundles.init(id));
        self.read_marked(id, init);
        self.event(id, StartResult::Marked)
    }

    fn read_marked(&mut self, id: &ContainerId, init: Option<Pid>) {
        if let (Some(init), Some(marked)) = (init, self.marked.get(id)) {
            let key = marked.key.clone();
            self.reader.read_program(key, init, Occasion::Marked(init));
        }
    }

    /// Handles what a container's init process executes.
    pub(super) fn program_read(
        &mut self,
        id: &ContainerId,
        occasion: Occasion,
        program: Program,
    ) -> Vec<Event> {
        let Some(marked) = self.marked.get_mut(id) else {
            return Vec::new();
        };
        match (occasion, program) {
            (Occasion::Marked(init), Program::OfContainer(at)) => {
                // After the release it may have been executed without a mark.
                if marked.released.is_none_or(|released| at < released) {
                    marked.has_started = true;
                    marked.init = Some(init);
                    // The next exec is not the start.
                    self.send_release(id);
                }
                Vec::new()
            }
            (Occasion::Marked(_init), Program::Runtime | Program::Exited) => Vec::new(),
            // The init process exited without an exec event, so the unattributed denial is its own.
            (Occasion::Released { .. }, Program::Exited)
                if !marked.has_started && !self.unattributed.is_empty() =>
            {
                let reason = self.unattributed.remove(0);
                self.ended(id, StartResult::Denied(reason))
            }
            (Occasion::Released { at_limit }, _) => {
                let (held, ran) = (None, marked.has_started);
                let result = StartResult::Released {
                    held,
                    at_limit,
                    ran,
                };
                self.ended(id, result)
            }
        }
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
}

#[cfg(test)]
mod tests;
