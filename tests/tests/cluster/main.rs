//! usher on a real Kubernetes node, with real sidecars.
//!
//! `cargo xtask test` creates the cluster and names it in
//! `USHER_TEST_CLUSTER`. Tests that only need an agent in enforce mode run in parallel;
//! tests that stop it, or change the node, run alone.

#![expect(clippy::unwrap_used, reason = "a test panics")]

mod chart;
mod cleanup;
mod cli;
mod cli_conns;
mod cli_explain;
mod cli_pictures;
mod deletion;
mod deployment;
mod documentation;
mod field;
mod hostile;
mod jobs;
mod kubectl;
mod lab;
mod linger;
mod load;
mod mesh;
mod network;
mod outage;
mod prometheus;
mod ran;
mod restarts;
mod rules;
mod runtime;
mod sidecars;
mod started;
mod tuning;
mod untouched;
mod workload;
