//! Held stop signals: the containers whose runtime state the holder process watches.
//!
//! The engine names the stop signals to hold ([`Stops::set`]). The agent opens the directory with the container's
//! runtime state, and the [holder process](crate::start::holder) marks it.

mod observed;

use std::{collections::HashMap, os::fd::AsFd, path::PathBuf, time::Duration};

use usher_client::{error_chain::chain, wall_clock};
use usher_core::{
    Event,
    base::id::{ContainerId, ContainerKey, PodUid},
    linger::{Stop, StopResult},
    start::{News, Order},
};
use usher_sys::oci::{runtime_state, stop_commands::StopCommands};

use self::observed::Observed;
use super::holder_process::HolderProcess;

#[derive(Debug)]
pub(super) struct Stops {
    runtime_state_dirs: Vec<PathBuf>,
    armed: HashMap<ContainerId, Armed>,
    /// In observe mode: the commands of the runtime for the containers of [`Stops::observed`].
    commands: Option<StopCommands>,
    observed: HashMap<ContainerId, Observed>,
}

/// A container whose stop signal is to be held. A restarted holder receives the order again.
#[derive(Debug)]
struct Armed {
    pod: PodUid,
    name: String,
    limit: Duration,
    stage: Stage,
}

/// Which order the current holder has for a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// None: the next holder receives it.
    Unsent,
    Armed,
    /// To release the stop signal. No later holder arms the container for it.
    Released,
}

impl Stops {
    pub(super) fn new(runtime_state_dirs: Vec<PathBuf>) -> Self {
        Self {
            runtime_state_dirs,
            armed: HashMap::new(),
            commands: None,
            observed: HashMap::new(),
        }
    }

    /// Sets the stop signals of a pod that are to be held, and releases its others.
    pub(super) fn set(
        &mut self,
        holder: &mut HolderProcess,
        pod: &PodUid,
        stops: Vec<Stop>,
    ) -> Vec<Event> {
        let (observed, stops): (Vec<Stop>, Vec<Stop>) =
            stops.into_iter().partition(|stop| stop.is_observed);
        self.release_others(holder, pod, &stops);
        let mut events = self.observe(pod, observed);
        for stop in stops {
            holder.require();
            let known = self.armed.get(&stop.id);
            let known = known.filter(|armed| armed.stage != Stage::Released);
            if known.is_some_and(|armed| armed.limit == stop.limit) {
                continue;
            }
            let armed = Armed {
                pod: pod.clone(),
                name: stop.container,
                limit: stop.limit,
                // Another limit: until the holder has it, the earlier one applies.
                stage: known.map_or(Stage::Unsent, |armed| armed.stage),
            };
            self.armed.insert(stop.id.clone(), armed);
            events.extend(self.arm(holder, &stop.id));
        }
        events
    }

    /// Releases the stop signals of a pod that are not among these, also those that were released before: the engine
    /// repeats the order when one waits nevertheless.
    fn release_others(&mut self, holder: &mut HolderProcess, pod: &PodUid, stops: &[Stop]) {
        let is_obsolete = |id: &ContainerId, armed: &Armed| {
            armed.pod == *pod && !stops.iter().any(|stop| stop.id == *id)
        };
        // What no holder has needs no release, and a later holder must not arm it.
        self.armed
            .retain(|id, armed| armed.stage != Stage::Unsent || !is_obsolete(id, armed));
        for (id, armed) in &mut self.armed {
            if !is_obsolete(id, armed) {
                continue;
            }
            armed.stage = Stage::Released;
            order_release(holder, id);
        }
    }

    fn arm(&mut self, holder: &mut HolderProcess, id: &ContainerId) -> Option<Event> {
        let armed = self.armed.get_mut(id)?;
        let directory = match runtime_state::open_directory(&self.runtime_state_dirs, id) {
            Ok(directory) => directory,
            Err(error) => {
                let event = self.event(id, StopResult::Unsupported(chain(&error)));
                self.forget(holder, id);
                return event;
            }
        };
        let order = Order::ArmStop {
            container: id.clone(),
            limit: armed.limit,
        };
        match holder.send(&order, &[directory.as_fd()]) {
            Ok(()) => armed.stage = Stage::Armed,
            Err(reason) => {
                tracing::debug!(container_id = %id, reason, "could not request the hold of a stop signal; the next holder receives the request");
            }
        }
        None
    }

    /// Forgets a container. The holder may have an order for it that it had not read when it reported the end of the
    /// earlier one, such as another limit. Nothing else would withdraw that.
    fn forget(&mut self, holder: &mut HolderProcess, id: &ContainerId) {
        let armed = self.armed.remove(id);
        if armed.is_some_and(|armed| armed.stage != Stage::Unsent) {
            order_release(holder, id);
        }
    }

    /// Sends the orders that the new holder lacks.
    pub(super) fn holder_ready(&mut self, holder: &mut HolderProcess) -> Vec<Event> {
        let unsent = self
            .armed
            .iter()
            .filter(|(_id, armed)| armed.stage == Stage::Unsent);
        let ids: Vec<ContainerId> = unsent.map(|(id, _armed)| id.clone()).collect();
        ids.iter().filter_map(|id| self.arm(holder, id)).collect()
    }

    /// Reports all stop signals as lost: the kernel has released them.
    pub(super) fn holder_ended(&mut self) -> Vec<Event> {
        let ids: Vec<ContainerId> = self.armed.keys().cloned().collect();
        let lost = ids
            .iter()
            .filter_map(|id| self.event(id, StopResult::Lost))
            .collect();
        self.armed
            .retain(|_id, armed| armed.stage != Stage::Released);
        for armed in self.armed.values_mut() {
            armed.stage = Stage::Unsent;
        }
        lost
    }

    pub(super) fn reported(&mut self, holder: &mut HolderProcess, news: News) -> Vec<Event> {
        let event = match news {
            News::StopHeld { container } => {
                let at = wall_clock::since_epoch();
                self.event(&container, StopResult::Held { at })
            }
            News::StopUnable { container, reason } => {
                let event = self.event(&container, StopResult::Unsupported(reason));
                self.forget(holder, &container);
                event
            }
            News::StopReleased {
                container,
                held,
                at_limit,
            } => {
                let result = held.map(|held| StopResult::Released { held, at_limit });
                let event = result.and_then(|result| self.event(&container, result));
                // Otherwise the container has been armed again in the meantime.
                let is_released = |armed: &Armed| armed.stage == Stage::Released;
                if at_limit {
                    self.forget(holder, &container);
                } else if self.armed.get(&container).is_some_and(is_released) {
                    self.armed.remove(&container);
                }
                event
            }
            News::StopArmed { container } => {
                tracing::info!(container_id = %container, "armed: the first stop signal of the container waits");
                None
            }
            _ => None,
        };
        event.into_iter().collect()
    }

    fn event(&self, id: &ContainerId, result: StopResult) -> Option<Event> {
        let armed = self.armed.get(id)?;
        Some(stop_event(&armed.pod, id, &armed.name, result))
    }
}

fn stop_event(pod: &PodUid, id: &ContainerId, name: &str, result: StopResult) -> Event {
    Event::Stop {
        key: ContainerKey {
            pod: pod.clone(),
            id: id.clone(),
        },
        name: name.to_owned(),
        result,
    }
}

fn order_release(holder: &mut HolderProcess, id: &ContainerId) {
    let container = id.clone();
    if let Err(reason) = holder.send(&Order::ReleaseStop { container }, &[]) {
        tracing::warn!(container_id = %id, reason, "could not request the release of a stop signal");
    }
}

#[cfg(test)]
mod tests;
