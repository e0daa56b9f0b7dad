//! Commands that report usher's data about pods, and the POD argument.

pub(crate) mod explain;
pub(crate) mod plan;
pub(crate) mod pod_arg;
pub(crate) mod pods;
pub(crate) mod stuck;
