//! The network namespaces that processes are in.
//!
//! A namespace without a process, which only a mount or a descriptor keeps, is not seen here. A look costs one
//! `stat` for each process.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
};

use usher_core::base::id::{NetnsId, Pid};

use crate::pods::proc::{self, ProcRoot};

/// More of them are on no node.
const MOST: usize = 65_536;
/// What a process that has ended gives, as in [`crate::pods::proc`].
const ENDED: i32 = libc::ESRCH;

/// What a look found.
#[derive(Debug, Default)]
pub struct Living {
    /// Each namespace, and one process that was in it.
    pub namespaces: BTreeMap<NetnsId, Pid>,
    /// How many processes would not say which one they are in.
    pub hidden: usize,
    /// Whether there were more namespaces than are looked at.
    pub cut: bool,
}

/// Looks at all processes, but for the host's first, which some machines hide even from root.
///
/// # Errors
/// When the processes cannot be listed.
pub fn living(proc: &ProcRoot) -> Result<Living, proc::Error> {
    let mut living = Living::default();
    for pid in proc.pids()?.filter(|pid| pid.0 > 1) {
        match fs::metadata(proc.path(pid, "ns/net")) {
            Ok(seen) => {
                let id = NetnsId {
                    dev: seen.dev(),
                    ino: seen.ino(),
                };
                if living.namespaces.len() < MOST {
                    living.namespaces.entry(id).or_insert(pid);
                } else {
                    living.cut |= !living.namespaces.contains_key(&id);
                }
            }
            Err(error) if has_ended(&error) => {}
            Err(_hidden) => living.hidden += 1,
        }
    }
    Ok(living)
}

/// Whether a look at a process failed because there is no such process any more.
pub fn has_ended(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(ENDED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::netns::{self, Netns};

    #[test]
    fn own_namespace_is_seen_once() {
        let proc = ProcRoot::new("/proc");
        let own = Pid(std::process::id().try_into().unwrap());
        let own = Netns::of_process(&proc, own).unwrap().id();
        let found = living(&proc).unwrap();
        assert!(found.namespaces.contains_key(&own));
        assert!(!found.cut);
    }

    #[test]
    fn what_ended_has_left_its_namespace() {
        let proc = ProcRoot::new("/proc");
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid(ended.id().try_into().unwrap());
        let gone = std::iter::repeat_with(|| Netns::of_process(&proc, pid))
            .find_map(Result::err)
            .unwrap();
        assert!(gone.is_gone(), "not reaped yet: {gone:?}");
        ended.wait().unwrap();
        assert!(Netns::of_process(&proc, pid).unwrap_err().is_gone());
        let hidden = netns::Error::Open {
            path: "/proc/1/ns/net".into(),
            source: ErrorKind::PermissionDenied.into(),
        };
        assert!(!hidden.is_gone());
    }

    #[test]
    fn nothing_to_see() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("version"), "").unwrap();
        fs::create_dir(dir.path().join("12")).unwrap();
        let found = living(&ProcRoot::new(dir.path())).unwrap();
        assert!(found.namespaces.is_empty() && found.hidden == 0);
        assert!(living(&ProcRoot::new(dir.path().join("none"))).is_err());
    }
}
