//! The processes of a container, from its cgroup.

use std::{fs, path::Path};

use usher_core::base::id::{ContainerKey, Pid};

use super::Error;
use crate::pods::{pidfd::Pidfd, proc::ProcRoot};

/// The cgroup that crun creates below the container's.
const CRUN_SUBGROUP: &str = "container";

/// Opens the oldest process of this name in a container; None if there is none. The pid is checked after the pidfd is
/// open, so the process certainly belongs to the container.
pub fn named_process(
    proc: &ProcRoot,
    key: &ContainerKey,
    cgroup: &Path,
    name: &str,
) -> Result<Option<Pidfd>, Error> {
    let unreadable = |source| Error::Proc {
        id: key.id.clone(),
        source,
    };
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
        let pidfd = match Pidfd::open(pid) {
            Ok(pidfd) => pidfd,
            Err(gone) if gone.is_gone() => continue,
            Err(source) => {
                let id = key.id.clone();
                return Err(Error::Pidfd { id, source });
            }
        };
        if proc.is_in(pid, key).map_err(unreadable)? {
            return Ok(Some(pidfd));
        }
    }
    Ok(None)
}

/// The processes of a container's cgroup; None if it has been removed.
///
/// With the systemd driver, crun puts the processes into the subgroup `container`
/// ([crun(1)](https://github.com/containers/crun/blob/main/crun.1.md), `run.oci.systemd.subgroup`).
pub(super) fn processes(cgroup: &Path) -> Result<Option<Vec<Pid>>, Error> {
    match processes_of(cgroup)? {
        Some(none) if none.is_empty() => {
            let below = processes_of(&cgroup.join(CRUN_SUBGROUP))?;
            Ok(Some(below.unwrap_or_default()))
        }
        found => Ok(found),
    }
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
