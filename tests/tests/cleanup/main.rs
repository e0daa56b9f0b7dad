//! The removal from a node: the real `usher cleanup` and the real `usher-agent --cleanup`, after the kill of an agent that
//! held a pod, and alongside a live agent; and an agent that is terminated after the deletion of its DaemonSet.
//!
//! Needs root, built programs (`cargo build -p usher-agent -p usher-cni`) and the programs `ip`, `nft` and `nsenter`. The
//! command examines all processes of a machine, so each test has a machine of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agent;
mod deleted;
mod host;
mod manual;
