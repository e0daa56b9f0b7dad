//! Servers: health, readiness and metrics over HTTP, and the admin socket of the command-line tool.

pub(crate) mod admin;
pub(crate) mod http;
