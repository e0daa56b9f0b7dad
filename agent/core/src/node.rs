//! Texts and tables of the node: cgroups, mounts, bundles, networks, taints, sockets, packets; the platform.

pub mod bundle;
pub mod cgroup;
pub mod init_process;
pub mod mountinfo;
pub mod network;
pub mod packet;
pub mod packet_filter;
pub mod platform;
pub mod socket;
pub mod taint;
