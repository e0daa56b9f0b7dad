//! This process: capabilities, child processes, descriptors, memory, pools, priority, resource usage, threads, a watchdog
//! timer.

pub mod capability;
pub mod child;
pub mod code_pages;
pub mod descriptor_table;
pub mod memory;
pub mod pool;
pub mod priority;
pub mod thread;
pub mod usage;
pub mod watchdog;
