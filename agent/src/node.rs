//! Reads of the node: containers, kernel features and the configuration file. Also the agent's own privileges.

pub(crate) mod config_file;
pub(crate) mod discovery;
pub(crate) mod kernel_features;
pub(crate) mod privileges;
