//! The real agent puts the real CNI plugin on a host, beside others who write the same files.
//!
//! Needs root and built programs (`cargo build -p usher-agent -p usher-cni`). The hosts are scratch directories; what
//! makes a network does so in a machine of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chain;
mod host;
mod mode;
mod reader;
mod rewritten;
