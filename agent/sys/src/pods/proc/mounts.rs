//! The mounts that a process sees.
//!
//! What prepares a container is looked at many times, and with the root of the runtime that started it, it sees
//! every mount of the node: on a full one they take far longer to read than it takes to compare two roots. Other
//! than mount namespaces roots tell before and after, and are the same where the runtime has a namespace of its own.

use std::fs;

use usher_core::base::id::Pid;

use super::{Error, ProcRoot};
use crate::pods::statx;

impl ProcRoot {
    /// The mounts that a process sees, the first 8 MiB of them; None when it has ended.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn mountinfo(&self, pid: Pid) -> Result<Option<String>, Error> {
        self.read(&self.path(pid, "mountinfo"))
    }

    /// The mounts that a process sees once its root is not its parent's; nothing as long as it is. None when it has ended.
    ///
    /// # Errors
    /// [`Error`] when the process exists and does not show itself.
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

    /// Whether a process has a mount namespace of its own and not the host's;
    /// false when it has ended.
    pub fn has_own_mounts(&self, pid: Pid) -> bool {
        let of = |pid| fs::read_link(self.path(pid, "ns/mnt")).ok();
        of(pid).is_some_and(|own| Some(own) != of(Pid(1)))
    }
}
