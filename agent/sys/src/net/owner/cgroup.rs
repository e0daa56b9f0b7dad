//! The cgroups of one pod: their processes and inode numbers.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use usher_core::base::id::{Pid, PodUid};

use super::Member;
use crate::pods::cgroup::{Error, V2_MARK, walk};

/// Maximum number of a container's cgroups, and their maximum depth. A container can create nested cgroups.
const MOST: usize = 1024;
const DEEPEST: usize = 16;

/// Lists the containers of a pod and their processes. `root` is the directory that contains `kubepods`
/// ([`locate`](crate::pods::cgroup::locate)). Empty if the pod has no cgroup.
pub fn members(root: &Path, pod: &PodUid) -> Result<Vec<Member>, Error> {
    let found = walk(root)?.into_iter().filter(|found| found.uid == *pod);
    let members = found.flat_map(|found| found.containers).map(|(id, path)| {
        let mut member = Member {
            id,
            pids: Vec::new(),
            cgroups: Vec::new(),
        };
        collect(&path, DEEPEST, &mut MOST.clone(), &mut member);
        member
    });
    Ok(members.collect())
}

/// Skips an unreadable cgroup, which has been removed after its last process.
fn collect(path: &Path, depth: usize, room: &mut usize, member: &mut Member) {
    *room = room.saturating_sub(1);
    // Inode numbers of v1 hierarchies are not comparable.
    if path.join(V2_MARK).exists()
        && let Ok(metadata) = fs::metadata(path)
    {
        member.cgroups.push(metadata.ino());
    }
    let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    let pids = text.lines().filter_map(|line| line.parse().ok());
    // Zero is a process outside this pid namespace.
    member.pids.extend(pids.filter(|pid| *pid > 0).map(Pid));
    if depth == 0 {
        return;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    for directory in directories {
        if *room == 0 {
            return;
        }
        collect(&directory.path(), depth - 1, room, member);
    }
}
