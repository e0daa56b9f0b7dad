//! Sockets of a namespace as the kernel lists them, and whose they are.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dump;
mod members;
#[path = "../hold/scratch.rs"]
#[expect(dead_code, reason = "some of it is for the tests of the hold")]
mod scratch;
