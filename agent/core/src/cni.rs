//! The CNI: the message of the plugin, edits of network configurations, and the runtime's directories.

pub mod conflist;
pub mod containerd;
pub(crate) mod json_span;
pub mod protocol;
