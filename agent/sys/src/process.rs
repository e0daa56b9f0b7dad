//! This process: capabilities, priority, resource usage, a watchdog timer.

pub mod capability;
pub mod code_pages;
pub mod priority;
pub mod usage;
pub mod watchdog;
