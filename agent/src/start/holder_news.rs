//! Messages of the holder, and the events that follow from them.

use usher_client::error_chain::chain;
use usher_core::{
    Event,
    base::id::{ContainerId, Pid},
    start::{News, StartResult},
};
use usher_sys::oci::bundle;

use super::{Starts, holder_process::HolderEvent};

impl Starts {
    pub(super) fn holder_reported(&mut self, event: HolderEvent) -> Vec<Event> {
        let news = match event {
            HolderEvent::News(news) => news,
            HolderEvent::Ended => {
                return self
                    .marked
                    .drain()
                    .map(|(_id, marked)| marked.event(StartResult::Lost))
                    .collect();
            }
        };
        match news {
            News::Ready => Vec::new(),
            News::Refused { reason } => {
                self.holder.disable();
                vec![Event::CannotHoldStarts(reason)]
            }
            News::Marked { container } => self.container_marked(&container),
            News::Held { container } => self.event(&container, StartResult::Held),
            News::Unable { container, reason } => {
                let events = self.event(&container, StartResult::Unable(reason));
                self.marked.remove(&container);
                events
            }
            News::Released {
                container,
                held,
                at_limit,
            } => {
                if at_limit {
                    // The root's mark is not needed any more.
                    self.send_release(&container);
                }
                let Some(marked) = self.marked.remove(&container) else {
                    return Vec::new();
                };
                if let Some(bundles) = &mut self.bundles {
                    bundles.forget(&container);
                }
                let ran = held.is_none() && self.has_started(&container, marked.init);
                vec![marked.event(StartResult::Released {
                    held,
                    at_limit,
                    ran,
                })]
            }
        }
    }

    /// The holder sees every exec in the container from now on. Where the program runs already, the next exec is not the
    /// start, so the container is released.
    fn container_marked(&mut self, id: &ContainerId) -> Vec<Event> {
        let bundles = self.bundles.as_ref();
        if let Some(pid) = bundles.and_then(|bundles| bundles.init(id))
            && self.has_started(id, Some(pid))
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

    /// Whether a container runs its program, although the holder did not see its start.
    fn has_started(&self, id: &ContainerId, init: Option<Pid>) -> bool {
        let Some(pid) = init else {
            return false;
        };
        bundle::started(&self.proc, pid).unwrap_or_else(|error| {
            tracing::debug!(container_id = %id, error = %chain(&error), "could not read what a container executes");
            false
        })
    }
}
