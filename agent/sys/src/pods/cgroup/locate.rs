//! Which directory holds the kubepods tree.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use usher_core::node::cgroup;

/// File that every cgroup of version 2 has and none of version 1.
const V2_MARK: &str = "cgroup.controllers";

/// Hierarchies to look into where version 1 is in use, alone or beside version
/// 2 (hybrid). The kubelet and every runtime make their directories in all
/// that they manage; these are managed on every node. The version 2 hierarchy
/// of a hybrid machine comes last, because older runtimes leave it out.
const HIERARCHIES: [&str; 5] = ["pids", "memory", "cpu,cpuacct", "systemd", "unified"];

/// The directory that holds `kubepods`: `path` itself, or, where it is the
/// mount point of the hierarchies of cgroup version 1 (`/sys/fs/cgroup`), one
/// of those.
///
/// # Errors
/// When it is neither.
pub fn locate(path: &Path) -> io::Result<PathBuf> {
    if path.join(V2_MARK).exists() || has_kubepods(path) {
        return Ok(path.to_owned());
    }
    let present: Vec<PathBuf> = HIERARCHIES
        .iter()
        .map(|hierarchy| path.join(hierarchy))
        .filter(|path| path.is_dir())
        .collect();
    let with_pods = present.iter().find(|path| has_kubepods(path));
    // Before the kubelet's first start there are no pods anywhere.
    with_pods.or(present.first()).cloned().ok_or_else(|| {
        let text = format!("no cgroup file system is mounted at {}", path.display());
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

fn has_kubepods(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else {
        return false;
    };
    entries
        .flatten()
        .any(|entry| entry.file_name().to_str().is_some_and(cgroup::is_kubepods))
}
