//! Operator requests, which the agent executes in every mode of the node.

pub(crate) mod hold;
pub(crate) mod operator_request;
pub(crate) mod quit;
pub(crate) mod release;
