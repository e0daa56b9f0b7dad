//! Files and directories: change notification and atomic exchange.

pub mod directory;
pub mod exchange;
