//! Doors that a person has opened.

use super::{
    Opened,
    lifecycle::{Holding, answer},
    state::State,
};
use crate::{cni::protocol::Outcome, engine::action::Action, pod::state::Tracked};

impl Holding<'_> {
    /// Lets everything go that waits, or would.
    pub(crate) fn release(self, tracked: &mut Tracked, actions: &mut Vec<Action>) {
        tracked.hold.by_hand = false;
        let Some(sandbox) = &mut tracked.hold.sandbox else {
            return;
        };
        sandbox.released = true;
        match &sandbox.state {
            State::Shut(shut) => {
                let (why, shut) = (Opened::ByHand, shut.clone());
                sandbox.state = State::Opening { why, shut };
                let sandbox = sandbox.id.clone();
                actions.push(Action::OpenAll { sandbox });
            }
            State::Pending => {
                let reason = "somebody had it released by hand";
                answer(sandbox, Outcome::Open, reason, actions);
                sandbox.state = State::over();
                let sandbox = sandbox.id.clone();
                actions.push(Action::Forget { sandbox });
            }
            State::Arming { .. } | State::Opening { .. } | State::Over { .. } => {}
        }
    }
}
