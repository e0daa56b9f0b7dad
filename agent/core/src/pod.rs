//! A pod: its spec and status from the kubelet, its state from the kernel, and whether it has completed.

pub(crate) mod completion;
pub mod container_change;
pub mod exit_status;
pub mod image;
pub mod list;
pub mod requests;
pub mod restart_policy;
pub mod spec;
pub(crate) mod state;
pub(crate) mod view;
