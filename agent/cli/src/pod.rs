//! Commands about one pod or the pods of a node.

pub(crate) mod capture;
pub(crate) mod conns;
pub(crate) mod explain;
pub(crate) mod hold;
pub(crate) mod host_network;
pub(crate) mod listener;
pub(crate) mod operator_request;
pub(crate) mod plan;
pub(crate) mod pod_arg;
pub(crate) mod pods;
pub(crate) mod quit;
pub(crate) mod release;
pub(crate) mod request;
pub(crate) mod rules;
