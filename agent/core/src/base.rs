//! Identifiers, time, durations and quantities.

pub mod duration;
pub mod id;
pub mod quantity;
pub mod time;
