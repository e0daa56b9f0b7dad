//! Files and directories: change notification, atomic exchange, and lookups below another root.

pub mod directory;
pub mod exchange;
pub mod rooted;
