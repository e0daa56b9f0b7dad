//! What the Node's annotations say, and who is told of it.

use std::mem;

use usher_client::error_chain::chain;
use usher_core::{
    Event,
    kube_event::NodeCondition,
    metric::value::Capability,
    settings::mode::{Mode, Modes},
};

use super::NodeLoop;

impl NodeLoop {
    /// Reads the modes off the Node's annotations.
    pub(super) fn take_modes(&mut self) {
        let (mut modes, bad) = Modes::from_annotations(&self.annotations);
        for bad in bad {
            let error = chain(&bad);
            tracing::warn!(error, "Node has an annotation that is not one");
            self.teller.node(&NodeCondition::InvalidAnnotation(error));
        }
        for mode in [&mut modes.quit, &mut modes.hold] {
            if !self.trusted && *mode == Mode::Enforce {
                *mode = Mode::Observe;
            }
        }
        tracing::info!(quit = %modes.quit, hold = %modes.hold, "took the Node's modes");
        self.metrics.modes.set(&Capability::Quit, &modes.quit);
        self.metrics.modes.set(&Capability::Hold, &modes.hold);
        self.metrics.vitals.modes(modes, &self.annotations);
        // Nothing of the node is changed for a mode that does nothing: there
        // pods are looked at when their first process appears.
        if self.node_is_known {
            let wanted = self.lacks.is_none() && modes.hold == Mode::Enforce;
            self.wishes.plugin.send_replace(wanted);
            self.tell_modes(modes);
        }
        self.step(Event::Modes(modes));
    }

    fn tell_modes(&mut self, now: Modes) {
        if let Some(before) = self.modes.replace(now).filter(|before| *before != now) {
            self.teller
                .node(&NodeCondition::ModeChanged { before, now });
        }
        if let Some(lacks) = &self.lacks
            && now.hold != Mode::Off
            && !mem::replace(&mut self.lacks_is_told, true)
        {
            let condition = NodeCondition::HoldUnsupported(lacks.clone());
            self.teller.node(&condition);
        }
    }
}
