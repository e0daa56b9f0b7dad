//! Stop signals in observe mode: the kernel notifies the agent of the runtime's commands, and none of them waits.

use std::os::fd::AsFd;

use usher_client::error_chain::chain;
use usher_core::{
    Event,
    base::id::{ContainerId, PodUid},
    linger::{Stop, StopResult},
};
use usher_sys::oci::{runtime_state, stop_commands::StopCommands};

use super::{Stops, stop_event};

/// A container with a stop signal that is reported and does not wait.
#[derive(Debug)]
pub(super) struct Observed {
    pod: PodUid,
    name: String,
}

impl Stops {
    /// Observes exactly these stop signals of a pod.
    pub(super) fn observe(&mut self, pod: &PodUid, stops: Vec<Stop>) -> Vec<Event> {
        let Self {
            runtime_state_dirs,
            commands,
            observed,
            ..
        } = self;
        observed.retain(|id, container| {
            let is_wanted = container.pod != *pod || stops.iter().any(|stop| stop.id == *id);
            // The mark ends with its directory as well.
            if let (false, Some(commands)) = (is_wanted, &commands)
                && let Ok(directory) = runtime_state::open_directory(runtime_state_dirs, id)
                && let Err(error) = commands.unwatch(directory.as_fd())
            {
                tracing::debug!(container_id = %id, error = %chain(&error), "could not remove the mark of a runtime's state");
            }
            is_wanted
        });
        if observed.is_empty() && stops.is_empty() {
            self.commands = None;
        }
        let mut events = Vec::new();
        for stop in stops {
            if self.observed.contains_key(&stop.id) {
                continue;
            }
            match self.watch(&stop.id) {
                Ok(()) => {
                    tracing::debug!(container_id = %stop.id, "observes the stop signal of the container");
                    let container = Observed {
                        pod: pod.clone(),
                        name: stop.container,
                    };
                    self.observed.insert(stop.id, container);
                }
                Err(reason) => {
                    tracing::debug!(container_id = %stop.id, reason, "could not observe the stop signal of a container");
                    let result = StopResult::Unsupported(reason);
                    events.push(stop_event(pod, &stop.id, &stop.container, result));
                }
            }
        }
        events
    }

    fn watch(&mut self, id: &ContainerId) -> Result<(), String> {
        let directory = runtime_state::open_directory(&self.runtime_state_dirs, id)
            .map_err(|error| chain(&error))?;
        let commands = match self.commands.take() {
            Some(commands) => commands,
            None => StopCommands::open().map_err(|error| chain(&error))?,
        };
        let watched = commands.watch(directory.as_fd());
        self.commands = Some(commands);
        watched.map_err(|error| chain(&error))
    }

    /// Waits for stop signals in observe mode. The future may be dropped at any time.
    pub(in crate::start) async fn next(&mut self) -> Vec<Event> {
        let Some(commands) = &mut self.commands else {
            return std::future::pending().await;
        };
        match commands.next().await {
            Ok(id) => {
                let container = self.observed.get(&id);
                let event = container
                    .map(|Observed { pod, name }| stop_event(pod, &id, name, StopResult::Observed));
                event.into_iter().collect()
            }
            Err(error) => {
                tracing::error!(error = %chain(&error), "could not read the notifications of the runtime's commands; stop signals are not observed");
                self.commands = None;
                self.observed.clear();
                Vec::new()
            }
        }
    }
}
