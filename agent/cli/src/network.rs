//! Commands that work in the network namespace of a pod.

pub(crate) mod capture;
pub(crate) mod connect;
pub(crate) mod conns;
pub(crate) mod links;
pub(crate) mod listener;
pub(crate) mod pod_network;
pub(crate) mod request;
pub(crate) mod resolve;
pub(crate) mod resolver;
pub(crate) mod rules;
