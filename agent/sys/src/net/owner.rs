//! Which processes of a pod hold which sockets.
//!
//! A socket has an inode number. A process that holds the socket has a descriptor with that number. Only processes in
//! the cgroups of the pod's containers are read. A result counts only if the process is still in its container
//! afterwards, because its pid may have been reused.
//!
//! There are two sources for the numbers ([proc_pid_fd(5)](https://man7.org/linux/man-pages/man5/proc_pid_fd.5.html),
//! [proc_pid_fdinfo(5)](https://man7.org/linux/man-pages/man5/proc_pid_fdinfo.5.html)). The links in `/proc/PID/fd` are
//! faster, but only the process's own user may list them, or root with `CAP_DAC_READ_SEARCH`. `/proc/PID/fdinfo` has
//! the numbers since Linux 5.14, for processes with `CAP_SYS_PTRACE`. Neither opens a file of the process.
//!
//! All lists are bounded; [`Owners`] reports omissions.

mod cgroup;
mod descriptor;

use std::{collections::HashSet, io};

use usher_core::{
    base::id::{ContainerId, ContainerKey, Pid, PodUid},
    node::socket::Process,
};

pub use self::cgroup::members;
use self::descriptor::Look;
use crate::pods::proc::ProcRoot;

const MOST_DESCRIPTORS: usize = 1 << 20;
/// Maximum number of pairs of a socket and a process.
const MOST_PAIRS: usize = 1 << 17;

/// A container's cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The container, which may be the sandbox.
    pub id: ContainerId,
    /// The processes in its cgroup and nested ones.
    pub pids: Vec<Pid>,
    /// Inode numbers of these cgroups; empty on cgroup v1.
    pub cgroups: Vec<u64>,
}

/// Sockets and their owners.
#[derive(Debug, Default)]
pub struct Owners {
    /// The processes that hold at least one of the sockets.
    pub processes: Vec<Process>,
    /// Inode number of a socket and index in `processes`; sorted.
    pub held: Vec<(u32, u32)>,
    /// Processes that could not be read, with the error.
    pub hidden: Vec<(Pid, io::Error)>,
    /// Whether descriptors or holders exceed the limits.
    pub cut: bool,
}

/// Finds the holders of these sockets, or of all sockets, among the members of a pod. The container of a process is
/// its index in `members`.
///
/// # Errors
/// If the descriptors of this process cannot be read, which identify the file system of sockets.
pub fn owners(
    proc: &ProcRoot,
    pod: &PodUid,
    members: &[Member],
    wanted: Option<&HashSet<u32>>,
) -> io::Result<Owners> {
    let mut owners = Owners::default();
    let mut look = Look::new(MOST_DESCRIPTORS)?;
    for (place, member) in members.iter().enumerate() {
        let key = ContainerKey {
            pod: pod.clone(),
            id: member.id.clone(),
        };
        for pid in &member.pids {
            let mut sockets = HashSet::new();
            let looked = look.at(proc, *pid, |inode| {
                if wanted.is_none_or(|wanted| wanted.contains(&inode)) {
                    sockets.insert(inode);
                }
            });
            // The pid may have been reused by now.
            if !proc.is_in(*pid, &key).unwrap_or(false) {
                continue;
            }
            if let Err(error) = looked {
                owners.hidden.push((*pid, error));
            }
            owners.take(proc, *pid, place, sockets);
        }
    }
    owners.cut |= look.is_exhausted();
    owners.held.sort_unstable();
    Ok(owners)
}

impl Owners {
    fn take(&mut self, proc: &ProcRoot, pid: Pid, container: usize, sockets: HashSet<u32>) {
        if sockets.is_empty() {
            return;
        }
        let room = MOST_PAIRS.saturating_sub(self.held.len());
        self.cut |= sockets.len() > room;
        let place = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        let pairs = sockets.into_iter().map(|inode| (inode, place));
        self.held.extend(pairs.take(room));
        let name = proc.name(pid).ok().flatten().unwrap_or_default();
        self.processes.push(Process {
            pid,
            name,
            container,
        });
    }
}
