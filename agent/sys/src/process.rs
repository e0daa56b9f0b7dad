//! This process: capabilities, descriptors, memory, priority, resource usage, a watchdog timer.

pub mod capability;
pub mod code_pages;
pub mod descriptor_table;
pub mod memory;
pub mod priority;
pub mod usage;
pub mod watchdog;
