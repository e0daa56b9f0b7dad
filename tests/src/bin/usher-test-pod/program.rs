//! The programs that containers run.

pub(crate) mod app;
pub(crate) mod client;
pub(crate) mod execs;
pub(crate) mod holding;
pub(crate) mod mischief;
pub(crate) mod proxy;
pub(crate) mod shell;
pub(crate) mod sidecar;
