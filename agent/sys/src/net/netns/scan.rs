//! The network namespaces of all processes.
//!
//! It does not find a namespace without a process, which only a mount or a descriptor keeps alive. The scan costs one
//! `stat` for each process.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
};

use usher_core::base::id::{NetnsId, Pid};

use crate::pods::proc::{self, ProcRoot};

/// Maximum number of namespaces; no node has more.
const MOST: usize = 65_536;
/// The error for a process that has ended, as in [`crate::pods::proc`].
const ENDED: i32 = libc::ESRCH;

#[derive(Debug, Default)]
pub struct Scan {
    /// Each namespace, with one of its processes.
    pub namespaces: BTreeMap<NetnsId, Pid>,
    /// Number of processes with an unreadable namespace.
    pub hidden: usize,
    /// Whether there were more namespaces than the limit.
    pub truncated: bool,
}

/// Scans all processes except pid 1 of the host, which some machines hide even from root.
pub fn scan(proc: &ProcRoot) -> Result<Scan, proc::Error> {
    let mut scan = Scan::default();
    for pid in proc.pids()?.filter(|pid| pid.0 > 1) {
        match fs::metadata(proc.path(pid, "ns/net")) {
            Ok(seen) => {
                let id = NetnsId {
                    dev: seen.dev(),
                    ino: seen.ino(),
                };
                if scan.namespaces.len() < MOST {
                    scan.namespaces.entry(id).or_insert(pid);
                } else {
                    scan.truncated |= !scan.namespaces.contains_key(&id);
                }
            }
            Err(error) if has_ended(&error) => {}
            Err(_hidden) => scan.hidden += 1,
        }
    }
    Ok(scan)
}

/// Whether an access failed because the process has exited.
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
        let found = scan(&proc).unwrap();
        assert!(found.namespaces.contains_key(&own));
        assert!(!found.truncated);
    }

    #[test]
    fn ended_process_has_no_namespace() {
        let proc = ProcRoot::new("/proc");
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid(ended.id().try_into().unwrap());
        let error = std::iter::repeat_with(|| Netns::of_process(&proc, pid))
            .find_map(Result::err)
            .unwrap();
        assert!(error.is_gone(), "not reaped yet: {error:?}");
        ended.wait().unwrap();
        assert!(Netns::of_process(&proc, pid).unwrap_err().is_gone());
        let hidden = netns::Error::Open {
            path: "/proc/1/ns/net".into(),
            source: ErrorKind::PermissionDenied.into(),
        };
        assert!(!hidden.is_gone());
    }

    #[test]
    fn empty_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("version"), "").unwrap();
        fs::create_dir(dir.path().join("12")).unwrap();
        let found = scan(&ProcRoot::new(dir.path())).unwrap();
        assert!(found.namespaces.is_empty() && found.hidden == 0);
        assert!(scan(&ProcRoot::new(dir.path().join("none"))).is_err());
    }
}
