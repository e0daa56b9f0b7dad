//! The cost of sidecars that outlive their apps, or that end or start at the wrong time, by Namespace.
//!
//! | figure | what |
//! | --- | --- |
//! | pod-hours | time that sidecars ran on after the apps of their pod |
//! | CPU and memory hours | the requests of those pods for that time |
//! | refused connections | connections that a hold would have prevented from failing, in observe mode |
//! | open at stop | connections of a deleted pod that were open at the stop signal of its sidecar, in observe mode |
//! | after stop | connections that clients opened to a deleted pod after the stop signal of its app, in observe mode |
//! | SIGTERM gap | time that apps of deleted pods ran without a sidecar that had ended |
//!
//! [`PodCost`] follows one pod, [`count_connections`] counts those of decisions, [`Ledger`] adds up. The times are counted
//! in every mode but off.

mod ledger;
mod pod;

pub(crate) use self::{
    ledger::{Ledger, count_connections},
    pod::PodCost,
};
