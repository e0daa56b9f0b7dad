//! The parts of a hold, each test in its own network namespace: socket lookups, copies of packets, a queue, and their
//! combination, connections that are held and released.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attempt;
mod cost;
mod held;
mod log;
mod queue;
mod redirect;
mod release;
mod scratch;
mod sockets;
mod table;
