//! Operator requests: the agent carries them out, whatever the node's mode is.

pub(crate) mod hold;
pub(crate) mod operator_request;
pub(crate) mod quit;
pub(crate) mod release;
