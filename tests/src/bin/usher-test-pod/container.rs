//! A container from its bundle to its first program.

pub(crate) mod bundle;
pub(crate) mod config;
pub(crate) mod enter;
pub(crate) mod stage;
pub(crate) mod task;
