//! The agent serves exactly the metrics of its reference. The alert and recording rules and the dashboard use only
//! these metrics.
//!
//! promtool, from Debian's package, checks rules and queries. In the cluster tests a running Prometheus
//! queries the agent.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dashboard;
mod names;
mod promtool;
mod reference;
mod rules;
