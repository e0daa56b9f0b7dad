//! Installation of the CNI plugin, and removal of usher from a node or a cluster.

pub(crate) mod cleanup;
pub(crate) mod cleanup_cluster;
pub(crate) mod cni;
