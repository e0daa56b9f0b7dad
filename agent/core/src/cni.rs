//! The CNI: the message of the plugin, and edits of network configurations.

pub mod conflist;
pub(crate) mod json_span;
pub mod protocol;
