//! What the agent and the command-line tools share: clients of the kubelet and the API server, the run directory, the flags
//! that describe a node, and the installation and removal of the CNI plugin.

pub mod api_server;
pub mod backoff;
pub mod cleanup;
pub mod cni_args;
pub mod crash_point;
pub mod error_chain;
pub mod install;
pub mod kubelet;
pub mod node_args;
pub mod run_dir;
