//! Code that the agent and the command-line tool share.
//!
//! | module | contents |
//! | --- | --- |
//! | [`node_args`], [`cni_args`] | flags and variables: places on the node, the kubelet, the CNI plugin |
//! | [`kubelet`] | client of the kubelet's `/pods` |
//! | [`api_server`] | client of the API server |
//! | [`run_dir`] | files and sockets in the run directory |
//! | [`install`] | the CNI plugin's binary and its entry in the network configuration: install, check, remove |
//! | [`platform`] | the chart's preset for this node |
//! | [`cleanup`] | removal of everything that usher has on a node, with the primitives of [`install`] |
//! | [`backoff`], [`jitter`], [`wall_clock`] | retry times, random times, the time of the day |
//! | [`error_chain`], [`crash_point`] | errors in one line, places where tests stop the agent |
//!
//! [`install`] and [`cleanup`] belong together. `install` has the operations on the host's CNI directories, for the
//! agent that keeps the plugin installed and for `cleanup`. `cleanup` adds tables, sockets and files, in the order of
//! [`usher_core::cleanup`].

pub mod api_server;
pub mod backoff;
pub mod cleanup;
pub mod cni_args;
pub mod crash_point;
pub mod install;
pub mod jitter;
pub mod kubelet;
pub mod node_args;
pub mod platform;
pub mod run_dir;
pub mod wall_clock;

pub use usher_core::base::error_chain;
