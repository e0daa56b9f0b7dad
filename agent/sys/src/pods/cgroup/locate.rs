//! Finds the directory that holds the kubepods tree.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use usher_core::node::cgroup;

/// File of every cgroup of v2 and of none of v1.
const V2_MARK: &str = "cgroup.controllers";

/// Hierarchies to search on cgroup v1 and hybrid. The kubelet and every runtime create their directories in all
/// hierarchies that they manage; these are managed on every node. The v2 hierarchy of a hybrid machine comes last,
/// because older runtimes do not use it.
const HIERARCHIES: [&str; 5] = ["pids", "memory", "cpu,cpuacct", "systemd", "unified"];

/// The directory that holds `kubepods`: `path` itself, or one of the hierarchies below it, where it is the mount point
/// of cgroup v1 (`/sys/fs/cgroup`).
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
    // Before the first start of the kubelet there is no kubepods directory.
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
