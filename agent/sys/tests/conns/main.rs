//! Sockets, interfaces and routes of a network namespace as the kernel lists them, and the owners of the sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dump;
mod ended;
mod links;
mod members;
#[path = "../hold/scratch.rs"]
#[expect(dead_code, reason = "some of it is for the tests of the hold")]
mod scratch;
