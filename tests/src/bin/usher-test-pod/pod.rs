//! The parent of a pod's containers, with their network.

pub(crate) mod announce;
pub(crate) mod lives;
pub(crate) mod loopback;
pub(crate) mod network;
pub(crate) mod route;
pub(crate) mod shim;
