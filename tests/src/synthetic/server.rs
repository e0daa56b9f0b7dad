//! Stand-ins for the servers that the agent reads from.

pub mod api_server;
pub mod kubelet;
mod listener;
