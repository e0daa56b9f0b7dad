//! What the agent reads of its node: containers, kernel features, the configuration file, and its own privileges.

pub(crate) mod config_file;
pub(crate) mod discovery;
pub(crate) mod kernel_features;
pub(crate) mod privileges;
