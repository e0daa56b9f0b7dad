//! The project's own real Kubernetes cluster, of one node or a few.
//!
//! A [`Cluster`] is etcd, the API server, the controller manager, the scheduler, a kubelet, kube-proxy and containerd
//! in namespaces of this machine; every node has its own. Nothing is simulated, nothing is pulled from an image
//! registry, and [`Cluster::down`] leaves nothing behind. The programs are built once from the Go module proxy and PyPI
//! ([`programs`]); [`image`] writes container images without a container engine; [`workload`] has the objects that
//! tests create, [`crowd`] many of them at once, and [`mesh`] a real Istio for them. [`podlog`] reads the output of their
//! apps, [`prometheus`] is a real server that scrapes inside the node. [`versions`] lists the versions.
//!
//! It needs root on Linux, Debian's containerd, runc, iptables and CNI plugins, Go, and about 1 GB of memory.
#![cfg(feature = "cluster")]

pub mod cache;
mod cluster;
pub mod crowd;
pub mod image;
pub mod mesh;
mod node;
pub mod podlog;
pub mod programs;
pub mod progress;
pub mod prometheus;
pub mod versions;
pub mod workload;

pub use cluster::{Cluster, Component, Config, Member, Network, Status};
pub use nix::sys::signal::Signal;
pub use node::cgroup::Layout;
