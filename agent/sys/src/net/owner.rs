//! Which processes of a pod hold which sockets.
//!
//! A socket is a number in the kernel's file system of sockets, and a process
//! that holds it has a descriptor with that number. Only processes in the
//! cgroups of the pod's containers are looked at, and what a process shows
//! counts only when it is in its container afterwards as well: its number may
//! be another's by then.
//!
//! Two ways lead to the numbers
//! ([proc_pid_fd(5)](https://man7.org/linux/man-pages/man5/proc_pid_fd.5.html),
//! [proc_pid_fdinfo(5)](https://man7.org/linux/man-pages/man5/proc_pid_fdinfo.5.html)).
//! The links in `/proc/PID/fd` are quicker and belong to the process's user:
//! another one, root without `CAP_DAC_READ_SEARCH` included, may not list them.
//! `/proc/PID/fdinfo` has the numbers since Linux 5.14, for who has
//! `CAP_SYS_PTRACE`. Nothing of the process's files is opened either way.
//!
//! Everything is bounded; [`Owners`] says what was left out.

mod cgroup;
mod descriptor;

use std::{collections::HashSet, io, path::Path};

use usher_core::{
    base::id::{ContainerId, ContainerKey, Pid, PodUid},
    node::socket::Process,
};

use self::descriptor::Look;
use crate::pods::{cgroup::Error, proc::ProcRoot};

/// Most descriptors that are looked at.
const MOST_DESCRIPTORS: usize = 1 << 20;
/// Most pairs of a socket and a process that are kept.
const MOST_PAIRS: usize = 1 << 17;

/// A container's part of the cgroup tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The container, which may be the sandbox.
    pub id: ContainerId,
    /// The processes in its cgroup and those below.
    pub pids: Vec<Pid>,
    /// The kernel's numbers of these cgroups; none on version 1.
    pub cgroups: Vec<u64>,
}

/// The containers of a pod and their processes, now, from the directory that
/// holds `kubepods` ([`locate`](crate::pods::cgroup::locate)). Empty where the pod
/// has no cgroup.
///
/// # Errors
/// [`Error`], when the tree cannot be listed.
pub fn members(cgroup_root: &Path, pod: &PodUid) -> Result<Vec<Member>, Error> {
    cgroup::members(cgroup_root, pod)
}

/// Who holds what.
#[derive(Debug, Default)]
pub struct Owners {
    /// The processes that hold any of the sockets.
    pub processes: Vec<Process>,
    /// Number of a socket, and place in `processes`; in order.
    pub held: Vec<(u32, u32)>,
    /// Processes that did not show what they hold, and why.
    pub hidden: Vec<(Pid, io::Error)>,
    /// There were more descriptors, or holders, than are looked at.
    pub cut: bool,
}

/// Finds the holders of these sockets, or of all, among the members of a pod.
/// The container of a process is its place in `members`.
///
/// # Errors
/// When this process's own descriptors cannot be looked at, which is how the
/// file system of sockets is known.
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
            // Whoever has the number by now is not to be shown.
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
