//! The release of a hold that an operator requested.

use std::collections::BTreeSet;

use super::{
    Released,
    lifecycle::reply,
    state::{Hold, HoldPhase},
};
use crate::{cni::protocol::Outcome, engine::action::Action};

/// Releases everything that is held, or would be.
pub(crate) fn release(hold: &mut Hold, actions: &mut Vec<Action>) {
    hold.by_operator = false;
    let Some(sandbox) = &mut hold.sandbox else {
        return;
    };
    match &mut sandbox.phase {
        HoldPhase::Holding(_) => sandbox.release(Released::ByOperator, false, actions),
        HoldPhase::Pending => {
            reply(
                sandbox,
                Outcome::NotHeld,
                "an operator released it",
                actions,
            );
            sandbox.phase = HoldPhase::Released {
                by_operator: true,
                sidecar_runs: BTreeSet::new(),
            };
            let sandbox = sandbox.id.clone();
            actions.push(Action::Forget { sandbox });
        }
        HoldPhase::Released { by_operator, .. } => *by_operator = true,
        HoldPhase::Arming { .. } | HoldPhase::Releasing { .. } => {}
    }
}
