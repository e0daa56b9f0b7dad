//! Finds the directory that contains the kubepods tree.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use usher_core::node::cgroup;

/// A file that every v2 cgroup has, and no v1 cgroup.
pub(crate) const V2_MARK: &str = "cgroup.controllers";

/// Hierarchies to search on cgroup v1 and hybrid. The kubelet and every runtime create their directories in all
/// hierarchies that they manage, and these are managed on every node. The v2 hierarchy of a hybrid machine comes last,
/// because older runtimes do not use it.
const HIERARCHIES: [&str; 5] = ["pids", "memory", "cpu,cpuacct", "systemd", "unified"];

/// The directory that contains `kubepods`: `path` itself, or one of the hierarchies below it if it is the mount point
/// of cgroup v1 (`/sys/fs/cgroup`).
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
    // The kubepods directory is missing before the first start of the kubelet.
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
