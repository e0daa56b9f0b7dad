//! The mounts of a process.
//!
//! The runtime's process that prepares a container is read many times. While it has the runtime's root, it has every
//! mount of the node. On a full node these take far longer to read than a comparison of two roots. Mount namespaces
//! cannot be compared instead: they change before the root does, and a runtime may have a namespace of its own.

use std::fs;

use usher_core::base::id::Pid;

use super::{Error, ProcRoot};
use crate::pods::statx;

impl ProcRoot {
    /// The first 8 MiB of the mounts of a process; None if it has exited.
    pub fn mountinfo(&self, pid: Pid) -> Result<Option<String>, Error> {
        self.read(&self.path(pid, "mountinfo"))
    }

    /// The mounts of a process, if its root differs from its parent's; otherwise empty. None if it has exited.
    pub fn own_mountinfo(&self, pid: Pid) -> Result<Option<String>, Error> {
        let root = |pid| statx::identity(&self.path(pid, "root"));
        let Some(stat) = self.stat(pid)? else {
            return Ok(None);
        };
        match (root(pid), root(Pid(stat.ppid))) {
            (Ok(own), Ok(parents)) if own == parents => Ok(Some(String::new())),
            _ => self.mountinfo(pid),
        }
    }

    /// Whether a process has a mount namespace other than the host's; false if it has exited.
    pub fn has_own_mounts(&self, pid: Pid) -> bool {
        let of = |pid| fs::read_link(self.path(pid, "ns/mnt")).ok();
        of(pid).is_some_and(|own| Some(own) != of(Pid(1)))
    }
}
