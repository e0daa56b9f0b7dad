//! The way off a node: the real `usher cleanup` and the real `usher-agent --leave`, where an agent was killed while it
//! held a pod, or lives.
//!
//! Needs root, built programs (`cargo build -p usher-agent -p usher-cni`) and the programs `ip`, `nft` and `nsenter`. All
//! processes of a machine are looked at, so each test has a machine of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod host;
mod leave;
mod manual;
