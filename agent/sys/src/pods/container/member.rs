//! The processes of a container, from its cgroup.

use std::{
    fs,
    path::{Path, PathBuf},
};

use usher_core::base::id::{ContainerId, ContainerKey, Pid};

use super::{Error, error::unreadable};
use crate::pods::{pidfd::Pidfd, proc::ProcRoot};

/// Depth and number of the nested cgroups that are searched. A container can create any number.
const DEEPEST: usize = 3;
const MOST: usize = 64;

/// Opens the oldest process of this name in a container; None if there is none. The pid is checked after the pidfd is
/// open, so the process certainly belongs to the container.
pub fn named_process(
    proc: &ProcRoot,
    key: &ContainerKey,
    cgroup: &Path,
    name: &str,
) -> Result<Option<Pidfd>, Error> {
    let unreadable = unreadable(&key.id);
    let mut named = Vec::new();
    for pid in processes(cgroup)?.unwrap_or_default() {
        if proc.name(pid).map_err(unreadable)?.as_deref() != Some(name) {
            continue;
        }
        let candidate = proc.candidate(pid).map_err(unreadable)?;
        named.extend(candidate.map(|candidate| (candidate.start_ticks, pid)));
    }
    named.sort_by_key(|(start_ticks, pid)| (*start_ticks, pid.0));
    for (_start_ticks, pid) in named {
        if let Some(pidfd) = open(pid, &key.id)?
            && proc.is_in(pid, key).map_err(unreadable)?
        {
            return Ok(Some(pidfd));
        }
    }
    Ok(None)
}

/// Opens a process of a container; None if it has exited.
pub(super) fn open(pid: Pid, container: &ContainerId) -> Result<Option<Pidfd>, Error> {
    match Pidfd::open(pid) {
        Ok(pidfd) => Ok(Some(pidfd)),
        Err(gone) if gone.is_gone() => Ok(None),
        Err(source) => {
            let id = container.clone();
            Err(Error::Pidfd { id, source })
        }
    }
}

/// The processes of a container's cgroup, or of the nearest nested ones with processes; None if it has been removed.
///
/// With the systemd driver, crun puts the processes into the subgroup `container`
/// ([crun(1)](https://github.com/containers/crun/blob/main/crun.1.md), `run.oci.systemd.subgroup`). systemd moves
/// itself to `init.scope`, and other init processes to a cgroup of another name, because cgroup v2 allows no processes
/// in a cgroup that delegates controllers.
pub(super) fn processes(cgroup: &Path) -> Result<Option<Vec<Pid>>, Error> {
    let Some(mut found) = processes_of(cgroup)? else {
        return Ok(None);
    };
    let mut level = vec![cgroup.to_owned()];
    let mut room = MOST;
    for _depth in 0..DEEPEST {
        if !found.is_empty() {
            break;
        }
        level = level
            .iter()
            .flat_map(|cgroup| nested(cgroup))
            .take(room)
            .collect();
        room -= level.len();
        // An unreadable one has been removed, or is threaded.
        let lists = level.iter().filter_map(|cgroup| processes_of(cgroup).ok()?);
        found = lists.flatten().collect();
    }
    Ok(Some(found))
}

fn nested(cgroup: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path())
}

fn processes_of(cgroup: &Path) -> Result<Option<Vec<Pid>>, Error> {
    let path = cgroup.join("cgroup.procs");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(
            text.lines()
                .filter_map(|line| line.parse().ok())
                .map(Pid)
                .collect(),
        )),
        Err(gone) if matches!(gone.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => Ok(None),
        Err(source) => Err(Error::Procs { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_nested_cgroups_are_searched() {
        let top = tempfile::tempdir().unwrap();
        let write = |cgroup: &str, processes: &str| {
            let path = top.path().join(cgroup);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("cgroup.procs"), processes).unwrap();
        };
        let found = || {
            let mut pids = processes(top.path()).unwrap().unwrap();
            pids.sort_by_key(|pid| pid.0);
            pids.iter().map(|pid| pid.0).collect::<Vec<_>>()
        };
        assert_eq!(processes(top.path()).unwrap(), None);
        write("", "");
        assert!(found().is_empty());
        write("system.slice/app.service", "30\n31\n");
        write("system.slice", "");
        assert_eq!(found(), [30, 31]);
        write("init.scope", "20\n");
        assert_eq!(found(), [20]);
        write("container", "21\n");
        assert_eq!(found(), [20, 21]);
        write("", "10\n");
        assert_eq!(found(), [10]);
    }

    #[test]
    fn number_of_nested_cgroups_is_bounded() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("cgroup.procs"), "").unwrap();
        for number in 0..2 * MOST {
            let path = top.path().join(number.to_string());
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("cgroup.procs"), "1\n").unwrap();
        }
        assert_eq!(processes(top.path()).unwrap().unwrap().len(), MOST);
    }
}
