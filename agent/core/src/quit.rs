//! Terminating the sidecars of a finished pod.
//!
//! `review` decides what to do about the pod: nothing, a report of what enforce mode would do, or the next step with
//! each sidecar of the current stage. `ladder` has the position of each sidecar on its escalation ladder.

pub(crate) mod deletion;
mod exits;
pub(crate) mod ladder;
mod manual;
pub mod outcome;
pub(crate) mod permission;
pub(crate) mod review;
