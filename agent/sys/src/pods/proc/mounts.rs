//! The mounts of a process.
//!
//! The runtime's process that prepares a container is read many times. While it has the runtime's root, it has every
//! mount of the node. On a full node these take far longer to read than the mounts of two roots, which are among the
//! first. Mount namespaces cannot be compared instead: they change before the root does, and a runtime may have a
//! namespace of its own. A status of `/proc/PID/root` may wait for the server of a network file system.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
};

use usher_core::{base::id::Pid, node::mountinfo};

use super::{Error, ProcRoot};

/// The kernel writes a page at a time.
const PAGE: usize = 4096;
/// The mount of a root is in the first page as a rule; a node's initramfs mounts others before.
const ROOT_WITHIN: u64 = 64 * 1024;

impl ProcRoot {
    /// The first 8 MiB of the mounts of a process; None if it has exited.
    pub fn mountinfo(&self, pid: Pid) -> Result<Option<String>, Error> {
        self.read(&self.path(pid, "mountinfo"))
    }

    /// The first `limit` bytes of the mounts of a process; None if it has exited.
    pub fn first_mounts(&self, pid: Pid, limit: usize) -> Result<Option<String>, Error> {
        let path = self.path(pid, "mountinfo");
        self.read_at_most(&path, limit.try_into().unwrap_or(u64::MAX))
    }

    /// The first `limit` bytes of the mounts of a process, if its root is not on its parent's mount; otherwise empty. None
    /// if it has exited.
    pub fn own_mountinfo(&self, pid: Pid, limit: usize) -> Result<Option<String>, Error> {
        let Some(stat) = self.stat(pid)? else {
            return Ok(None);
        };
        let root = self.root_mount(pid);
        if root.is_some() && root == self.root_mount(Pid(stat.ppid)) {
            return Ok(Some(String::new()));
        }
        self.first_mounts(pid, limit)
    }

    /// The mount of a process's root; None if it is not among the first, or the process has exited.
    fn root_mount(&self, pid: Pid) -> Option<[String; 2]> {
        let file = File::open(self.path(pid, "mountinfo")).ok()?;
        let lines = BufReader::with_capacity(PAGE, file.take(ROOT_WITHIN)).split(b'\n');
        lines.map_while(Result::ok).find_map(|line| {
            let root = mountinfo::root(std::str::from_utf8(&line).ok()?)?;
            Some(root.map(str::to_owned))
        })
    }

    /// Whether a process has a mount namespace other than the host's; false if it has exited.
    pub fn has_own_mounts(&self, pid: Pid) -> bool {
        let of = |pid| fs::read_link(self.path(pid, "ns/mnt")).ok();
        of(pid).is_some_and(|own| Some(own) != of(Pid(1)))
    }
}
