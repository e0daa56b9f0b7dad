//! How a sidecar quits after it has received SIGTERM.
//!
//! The kubelet sends SIGTERM to all regular containers of a deleted pod at the same time. A sidecar that delays its own end
//! may still accept a request. A second signal is never sent: many programs exit at once, with an error.

use serde::Deserialize;

use super::LadderStep;
use crate::{
    decision::LeftToKubelet,
    recipe::{Recipe, Recognition, StepRecipe, Subject},
};

/// Steps that end a sidecar after SIGTERM.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AfterTerm {
    /// A container that the recipe recognizes is certainly a sidecar, and not a gateway, when one of these holds; empty where
    /// the recipe recognizes sidecars only.
    pub sidecar: Vec<Recognition>,
    pub steps: Vec<StepRecipe>,
}

impl Recipe {
    /// The steps that make this container quit after SIGTERM, in the recipe's order.
    pub(crate) fn after_term_ladder(
        &self,
        subject: Subject<'_>,
    ) -> Result<Vec<LadderStep>, LeftToKubelet> {
        let AfterTerm { sidecar, steps } = &self.after_term;
        if steps.is_empty() {
            return Err(LeftToKubelet::NoStep);
        }
        if !sidecar.is_empty() && !sidecar.iter().any(|way| way.holds(subject)) {
            return Err(LeftToKubelet::MayBeGateway);
        }
        let ladder: Vec<LadderStep> = steps
            .iter()
            .filter_map(|step| step.ladder_step(subject))
            .collect();
        if ladder.is_empty() {
            let reasons: Vec<String> = steps.iter().map(|step| step.choice(subject).why).collect();
            return Err(LeftToKubelet::StepExcluded {
                why: reasons.join("; "),
            });
        }
        Ok(ladder)
    }
}
