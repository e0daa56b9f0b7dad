//! The directories in which the node's containerd looks for CNI plugins.
//!
//! A containerd that does not find a plugin of its list starts no pod with a network of its own.

use std::{
    fs::{self, File, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::{fcntl::AtFlags, sys::stat::fstatat};
use usher_core::cni::containerd;
use usher_sys::files::rooted::{Links, Root};

/// containerd's configuration on the host.
pub(super) const CONFIG: &str = "/etc/containerd/config.toml";
/// Its size limit.
const LIMIT: u64 = 1024 * 1024;
/// Exists where this containerd has run a pod. Other runtimes, and the containerd of k3s and its like, have other
/// directories.
const TASKS: &str = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";

/// A directory of plugins on the host.
#[derive(Debug)]
pub struct PluginDir {
    pub(super) path: PathBuf,
    dir: File,
}

impl PluginDir {
    /// The directories that containerd's configuration names. Empty if it is not known in which directories the runtime
    /// looks.
    pub(super) fn of_containerd(host_root: &Path) -> Vec<Self> {
        let Ok(root) = Root::open(host_root) else {
            return Vec::new();
        };
        if root.dir(Path::new(TASKS)).is_err() {
            return Vec::new();
        }
        let config = root.text(Path::new(CONFIG), Links::Follow, LIMIT);
        containerd::plugin_dirs(&config.unwrap_or_default())
            .into_iter()
            .filter_map(|path| {
                let dir = root.dir(&path).ok()?;
                Some(Self { path, dir })
            })
            .collect()
    }

    fn has(&self, plugin: &str) -> bool {
        fstatat(&self.dir, plugin, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok()
    }
}

/// Where the runtime finds the plugins of its list, if that is elsewhere than in `bin_dir`.
pub(super) fn other_dir<'dirs>(
    dirs: &'dirs [PluginDir],
    bin_dir: &Path,
    types: &[String],
) -> Option<&'dirs PluginDir> {
    let identity = |file: &Metadata| (file.dev(), file.ino());
    let own = fs::metadata(bin_dir).ok().map(|file| identity(&file));
    let is_own = |dir: &PluginDir| dir.dir.metadata().ok().map(|file| identity(&file)) == own;
    if dirs.iter().any(is_own) {
        return None;
    }
    // A containerd that used these directories would need every plugin of the list.
    let is_there = |name: &String| dirs.iter().any(|dir| dir.has(name));
    let is_usable = !types.is_empty() && types.iter().all(is_there);
    dirs.first().filter(|_| is_usable)
}
