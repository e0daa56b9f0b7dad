//! What a hold is made of, each test in a network namespace of its own: lookups of sockets, copies of packets, a queue,
//! and all of them together as connections that wait and are let go.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attempt;
mod gate;
mod log;
mod queue;
mod redirect;
mod release;
mod scratch;
mod sockets;
mod table;
