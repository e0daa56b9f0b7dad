//! Installation of the CNI plugin, and removal of usher from a node or a cluster.

pub(crate) mod cni;
pub(crate) mod leave;
pub(crate) mod leave_cluster;
