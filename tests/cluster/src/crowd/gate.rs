//! The files that sidecars wait for, in a directory of the node that their pods mount.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::Cluster;

/// The mount of the directory in sidecars.
pub(super) const IN_POD: &str = "/gates";
/// In the node, next to the kubelet's own files.
const PLACE: &str = "/var/lib/kubelet/usher-test-gates";

#[derive(Debug)]
pub(super) struct Gates {
    in_node: PathBuf,
    outside: PathBuf,
}

impl Gates {
    pub(super) fn make(cluster: &Cluster, name: &str) -> Result<Self> {
        let in_node = Path::new(PLACE).join(name);
        let root = cluster.node_root().context("the node is down")?;
        let outside = root.join(in_node.strip_prefix("/").unwrap_or(&in_node));
        fs::create_dir_all(&outside).with_context(|| format!("create {}", outside.display()))?;
        Ok(Self { in_node, outside })
    }

    pub(super) fn in_node(&self) -> &Path {
        &self.in_node
    }

    pub(super) fn open(&self, pod: &str) -> Result<()> {
        let file = self.outside.join(pod);
        fs::write(&file, "").with_context(|| format!("write {}", file.display()))
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        // The node may be gone.
        fs::remove_dir_all(&self.outside).ok();
    }
}
