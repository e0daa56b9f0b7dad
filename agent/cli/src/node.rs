//! Commands about the node and the agent on it.

pub(crate) mod check;
pub(crate) mod cleanup;
pub(crate) mod config;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod report;
pub(crate) mod status;
pub(crate) mod sysdump;
pub(crate) mod watch;
