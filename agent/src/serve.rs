//! Servers: probes and metrics over HTTP, and the admin socket of the command-line tool.

pub(crate) mod admin;
pub(crate) mod connection;
pub(crate) mod metrics;
pub(crate) mod probes;
