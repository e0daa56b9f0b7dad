//! Tests of usher as it runs on a node, and their support.
//!
//! [`synthetic`] creates pods of real processes, cgroups and namespaces without
//! Kubernetes. The tests in `tests/` and the benchmarks in `benches/` run the
//! real agent binary against them. All of it needs root and a cgroup2 mount;
//! [`privilege`] checks both. [`record`] keeps the results of a
//! benchmark. [`lease`] takes a lease on a file. [`isolation`] compares a node that hostile pods attack with the same node without them.

pub mod golden;
pub mod isolation;
pub mod lease;
pub mod privilege;
pub mod record;
pub mod synthetic;
pub mod topology;
pub mod wait;
