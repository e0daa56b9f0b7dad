//! The real agent installs the real CNI plugin on a host, alongside other writers of the same files.
//!
//! Needs root and built programs (`cargo build -p usher-agent -p usher-cni`). The hosts are scratch directories; tests that
//! create a network do so in a machine of their own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chain;
mod host;
mod mode;
mod reader;
mod rewritten;
