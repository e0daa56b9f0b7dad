//! Identifiers, time, durations, quantities and errors in one line.

pub mod duration;
pub mod error_chain;
pub mod id;
pub mod quantity;
pub mod time;
