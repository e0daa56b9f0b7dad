//! Pods as the kernel represents them: cgroups, processes, their starts and exits.

pub mod cgroup;
pub mod container;
pub(crate) mod inotify;
pub mod mounted_file;
pub mod pidfd;
pub mod proc;
pub(crate) mod readiness;
pub mod reads;
