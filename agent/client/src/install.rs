//! The CNI plugin's binary and its entry in the network configuration: pure plans and file operations.

pub mod binary;
pub mod entry;
pub mod error;
pub mod files;
pub mod removal;
pub mod settings;
pub mod step;
