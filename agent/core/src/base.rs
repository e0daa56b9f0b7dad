//! Identifiers, time and durations.

pub mod duration;
pub mod id;
pub mod time;
