//! One look at a container, for programs that do not stay.

use std::path::Path;

use usher_core::{
    base::id::{ContainerKey, Pid},
    node::{init_process, mountinfo},
};

use super::{Error, member};
use crate::pods::proc::{self, ProcRoot};

/// What one look shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Its init process, where it has one.
    pub init: Option<Pid>,
    /// Its name, where its mounts tell it; a sandbox has none.
    pub name: Option<String>,
    /// All its processes, its init process among them.
    pub processes: Vec<Pid>,
}

/// Looks at a container once. The init process of one that is just being started may still be one of the runtime's.
///
/// # Errors
/// [`Error`] when the processes exist and do not show themselves.
pub fn look(proc: &ProcRoot, key: &ContainerKey, cgroup: &Path) -> Result<Look, Error> {
    let unreadable = |source: proc::Error| Error::Proc {
        id: key.id.clone(),
        source,
    };
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
    let name = mounts.as_deref();
    let name = name.and_then(|mounts| mountinfo::container_name(mounts, &key.pod));
    Ok(Look {
        init: Some(choice.pid),
        name: name.map(str::to_owned),
        processes,
    })
}
