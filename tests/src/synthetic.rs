//! Real pods without Kubernetes, hundreds in seconds.
//!
//! A [`Node`] has a private cgroup root, a scratch directory and a stand-in for
//! the kubelet. A [`Pod`] on it looks to the node's kernel like a real one:
//!
//! - a network namespace of its own, with `lo` up;
//! - for each container a cgroup, a pid namespace in which its process is pid 1, a
//!   mount namespace with a root of its own, and the mount of the termination
//!   log, which contains its name;
//! - a parent outside of the pod that reaps at once, as a runtime's shim does.
//!
//! The processes are one small multi-call binary, `usher-test-pod`. Their
//! tasks are data ([`wire::Program`]), and they report times in nanoseconds of
//! `CLOCK_MONOTONIC`. The [`Agent`] is the real binary. Sidecars of every kind
//! are in the [`catalog`].
//!
//! A pod may share namespaces with its containers or with the node, or have a
//! user namespace ([`spec::Shares`]), and its sandbox can be replaced. A test that
//! affects the whole machine, its loopback or its pids, runs in a
//! [`machine`] of its own.
//!
//! [`Node::with_bundles`] exposes its containers as containerd does, in a mount
//! namespace from which the agent receives mounts. It is for tests of the time between the
//! mount of a container's root and its first instruction.
//!
//! Kernel interfaces: cgroup2 (`cgroup.procs`, `cgroup.kill`: Linux 5.14),
//! `unshare`, `setns`, overlayfs, `pivot_root`, `signalfd`, rtnetlink, `ns_last_pid`. Most
//! failures are missing privileges ([`crate::privilege`]). A failed step of a
//! container is reported by its name and makes the waiting test
//! panic.
//!
//! Cleanup: a dropped `Pod` or `Node` removes its files and processes. When the test process is
//! killed, the standard input of its shims closes, so they end their pods. The next [`Node`]
//! removes the remaining directories.

pub mod agent;
pub mod catalog;
pub mod clock;
pub mod machine;
mod node;
mod pod;
pub mod process;
pub mod program;
pub mod runtime;
pub mod server;
pub mod silent_file;
pub mod spec;
pub mod usher;
pub mod wire;

use node::bundles;

pub use agent::{Agent, Doomed, Holder};
pub use node::{Node, layout, ledger, manifest};
pub use pod::{ClientResult, Pod, Request};
pub use process::{inventory, limit};
pub use server::{
    api_server::{self, ApiServer},
    kubelet::{self, Behaviour, Bulk, Kubelet},
};
pub use spec::{ContainerSpec, Origin, PodSpec, Probe, ProbeKind, RestartPolicy, RestartRule};
