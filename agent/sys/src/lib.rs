//! The Linux interfaces of usher, one module per kernel facility. No module decides anything: they convert the kernel's
//! data into values of `usher_core`, and each operation acts on one object.
//!
//! | folder | kernel facility |
//! | --- | --- |
//! | [`net`] | network namespaces: interfaces, routes, nftables, nflog, nfqueue, sock_diag, raw and packet sockets |
//! | [`pods`] | cgroups, `/proc`, pidfds and inotify: containers, their processes, starts and exits |
//! | [`oci`] | containers before they run: bundles of the runtime, fanotify permission events for the first exec |
//! | [`files`] | change notification of directories, atomic exchange of two files |
//! | [`process`] | this process: capabilities, child processes, priority, resource usage, a watchdog timer |
//! | [`seqpacket`] | Unix sockets whose messages carry descriptors |

pub mod files;
pub mod net;
pub mod oci;
pub mod pods;
pub mod process;
pub mod seqpacket;
