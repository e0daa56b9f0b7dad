//! What the holder tells, and what follows from it.

use usher_core::{
    Event,
    base::id::{ContainerId, Pid},
    start::{News, Told},
};
use usher_sys::oci::bundle;

use super::{Starts, holder_process::Word};

impl Starts {
    pub(super) fn heard(&mut self, word: Word) -> Vec<Event> {
        match word {
            Word::News(News::Ready) => Vec::new(),
            Word::News(News::Refused { reason }) => {
                self.link.give_up();
                vec![Event::CannotHoldStarts(reason)]
            }
            Word::News(News::Marked { container }) => self.has_marked(&container),
            Word::News(News::Held { container }) => self.told(&container, Told::Held),
            Word::News(News::Unable { container, reason }) => {
                let events = self.told(&container, Told::Unable(reason));
                self.marked.remove(&container);
                events
            }
            Word::News(News::LetGo {
                container,
                held,
                at_limit,
            }) => {
                if at_limit {
                    // Its mark is of no use any more.
                    self.let_go(&container);
                }
                let Some(marked) = self.marked.remove(&container) else {
                    return Vec::new();
                };
                if let Some(bundles) = &mut self.bundles {
                    bundles.forget(&container);
                }
                let ran = || self.has_started(&container, marked.init);
                let ran = held.is_none() && ran();
                vec![marked.told(Told::LetGo {
                    held,
                    at_limit,
                    ran,
                })]
            }
            Word::Ended => {
                let lost = self.marked.drain();
                lost.map(|(_id, marked)| marked.told(Told::Lost)).collect()
            }
        }
    }

    /// Nothing is executed unseen in a container from now on. Where that came
    /// too late what would be held now is not its start.
    fn has_marked(&mut self, id: &ContainerId) -> Vec<Event> {
        let bundles = self.bundles.as_ref();
        if let Some(pid) = bundles.and_then(|bundles| bundles.init(id))
            && self.has_started(id, Some(pid))
        {
            if let Some(marked) = self.marked.get_mut(id) {
                marked.init = Some(pid);
            }
            self.let_go(id);
        }
        self.told(id, Told::Marked)
    }

    fn told(&self, container: &ContainerId, told: Told) -> Vec<Event> {
        let marked = self.marked.get(container);
        marked.map(|marked| marked.told(told)).into_iter().collect()
    }

    /// Whether a container whose start was not seen runs its program.
    fn has_started(&self, id: &ContainerId, init: Option<Pid>) -> bool {
        let Some(pid) = init else {
            return false;
        };
        bundle::started(&self.proc, pid).unwrap_or_else(|error| {
            tracing::debug!(container_id = %id, %error, "could not see what a container executes");
            false
        })
    }
}
