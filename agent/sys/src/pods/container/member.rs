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

/// The processes of a container; None if its cgroup has been removed.
pub(super) fn processes(cgroup: &Path) -> Result<Option<Vec<Pid>>, Error> {
    let levels = Levels::open(cgroup)?;
    Ok(levels.map(|(own, nested)| own.into_iter().chain(nested.flatten()).collect()))
}

/// The processes of the cgroups below a container's own, level by level.
///
/// With the systemd driver, crun puts the processes into the subgroup `container`
/// ([crun(1)](https://github.com/containers/crun/blob/main/crun.1.md), `run.oci.systemd.subgroup`). systemd moves
/// itself to `init.scope`, and other init processes to a cgroup of another name, because cgroup v2 allows no processes
/// in a cgroup that delegates controllers.
#[derive(Debug)]
pub(super) struct Levels {
    /// The cgroups of the last level.
    level: Vec<PathBuf>,
    depth: usize,
    room: usize,
}

impl Levels {
    /// Also returns the processes of the container's own cgroup; None if it has been removed.
    pub(super) fn open(cgroup: &Path) -> Result<Option<(Vec<Pid>, Self)>, Error> {
        let levels = Self {
            level: vec![cgroup.to_owned()],
            depth: 0,
            room: MOST,
        };
        Ok(processes_of(cgroup)?.map(|own| (own, levels)))
    }
}

impl Iterator for Levels {
    type Item = Vec<Pid>;

    fn next(&mut self) -> Option<Vec<Pid>> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        let nested = self.level.iter().flat_map(|cgroup| nested(cgroup));
        self.level = nested.take(self.room).collect();
        self.room -= self.level.len();
        // An unreadable one has been removed, or is threaded.
        let lists = { self.level.iter() }.filter_map(|cgroup| processes_of(cgroup).ok()?);
        (!self.level.is_empty()).then(|| lists.flatten().collect())
    }
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
    fn nested_cgroups_are_listed_by_level() {
        let top = tempfile::tempdir().unwrap();
        let write = |cgroup: &str, processes: &str| {
            let path = top.path().join(cgroup);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("cgroup.procs"), processes).unwrap();
        };
        let found = || {
            let (own, nested) = Levels::open(top.path()).unwrap().unwrap();
            let mut levels: Vec<_> = std::iter::once(own).chain(nested).collect();
            for level in &mut levels {
                level.sort();
            }
            levels
        };
        let pids = |pids: &[i32]| pids.iter().copied().map(Pid).collect::<Vec<_>>();
        assert!(Levels::open(top.path()).unwrap().is_none());
        assert_eq!(processes(top.path()).unwrap(), None);
        write("", "");
        assert_eq!(found(), [pids(&[])]);
        write("", "10\n");
        write("init.scope", "20\n");
        write("container", "21\n");
        write("system.slice", "");
        write("system.slice/app.service", "30\n31\n");
        write("system.slice/app.service/deep/deeper", "50\n");
        let levels = [pids(&[10]), pids(&[20, 21]), pids(&[30, 31]), pids(&[])];
        assert_eq!(found(), levels);
        let mut all = processes(top.path()).unwrap().unwrap();
        all.sort();
        assert_eq!(all, pids(&[10, 20, 21, 30, 31]));
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
