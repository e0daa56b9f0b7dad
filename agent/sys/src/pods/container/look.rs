//! Reads a container once, for programs that exit afterwards.

use std::path::Path;

use usher_core::{
    base::id::{ContainerKey, Pid},
    node::{init_process, mountinfo},
};

use super::{Error, error::unreadable, member};
use crate::pods::proc::ProcRoot;

/// State of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    pub init: Option<Pid>,
    /// Name from its mounts, if they contain it; a sandbox has none.
    pub name: Option<String>,
    /// All processes, including the init process.
    pub processes: Vec<Pid>,
}

/// Reads a container. In a starting container, the init process may still be one of the runtime's.
pub fn look(proc: &ProcRoot, key: &ContainerKey, cgroup: &Path) -> Result<Look, Error> {
    let unreadable = unreadable(&key.id);
    let processes = member::processes(cgroup)?.unwrap_or_default();
    let mut candidates = Vec::with_capacity(processes.len());
    for pid in &processes {
        candidates.extend(proc.candidate(*pid).map_err(unreadable)?);
    }
    let Some(choice) = init_process::init_process(&candidates) else {
        return Ok(Look {
            processes,
            ..Look::default()
        });
    };
    let mounts = proc.mountinfo(choice.pid).map_err(unreadable)?;
    let name = mounts
        .as_deref()
        .and_then(|mounts| mountinfo::container_name(mounts, &key.pod));
    Ok(Look {
        init: Some(choice.pid),
        name: name.map(str::to_owned),
        processes,
    })
}
