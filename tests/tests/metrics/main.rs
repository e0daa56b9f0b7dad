//! What the agent serves is what its reference lists, and what is made from it asks for nothing else: alert and recording
//! rules, the dashboard.
//!
//! Rules and queries are checked by promtool, which is Debian's; a running Prometheus asks the agent in the tests of the
//! cluster.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dashboard;
mod names;
mod promtool;
mod reference;
mod rules;
