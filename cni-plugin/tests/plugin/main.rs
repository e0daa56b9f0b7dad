//! The plugin as a runtime starts it: a process with an environment and stdin, with or without an agent.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod add;
mod agent;
mod call;
mod chain;
mod place;
mod verb;
