//! Lists the tree once, for programs that exit afterwards. Needs no watches, which may be exhausted.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use usher_core::{
    base::id::{ContainerId, ContainerKey, PodUid},
    node::cgroup,
};

use super::Error;

/// A pod with its containers, including the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPod {
    pub uid: PodUid,
    /// Ids and cgroups of its containers.
    pub containers: Vec<(ContainerId, PathBuf)>,
}

impl FoundPod {
    pub fn key(&self, id: &ContainerId) -> ContainerKey {
        ContainerKey {
            pod: self.uid.clone(),
            id: id.clone(),
        }
    }
}

/// Lists the pods below `root`, the directory that contains `kubepods`: see [`super::locate()`].
///
/// # Errors
/// [`Error::List`] if the root cannot be listed. Directories that are removed in the meantime are skipped.
pub fn walk(root: &Path) -> Result<Vec<FoundPod>, Error> {
    let mut pods = Vec::new();
    for (name, path) in directories(root)? {
        if cgroup::is_kubepods(&name) {
            below_kubepods(&path, true, &mut pods)?;
        }
    }
    Ok(pods)
}

fn below_kubepods(path: &Path, with_classes: bool, pods: &mut Vec<FoundPod>) -> Result<(), Error> {
    for (name, path) in directories(path)? {
        if with_classes && cgroup::is_qos(&name) {
            below_kubepods(&path, false, pods)?;
        } else if let Some(uid) = cgroup::pod(&name) {
            let containers = directories(&path)?
                .into_iter()
                .filter_map(|(name, path)| Some((cgroup::container(&name)?, path)))
                .collect();
            pods.push(FoundPod { uid, containers });
        }
    }
    Ok(())
}

/// The subdirectories of a directory; none if it has been removed.
pub(super) fn directories(path: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let list = || -> io::Result<Vec<(String, PathBuf)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string()
                && entry.file_type().is_ok_and(|kind| kind.is_dir())
            {
                found.push((name, entry.path()));
            }
        }
        Ok(found)
    };
    match list() {
        Err(gone) if matches!(gone.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => {
            Ok(Vec::new())
        }
        listed => listed.map_err(|source| Error::List {
            path: path.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";

    #[test]
    fn both_drivers_and_every_class() {
        let root = tempfile::tempdir().unwrap();
        let id = "a".repeat(64);
        let systemd = format!(
            "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{}.slice/cri-containerd-{id}.scope",
            UID.replace('-', "_")
        );
        let cgroupfs = format!("kubepods/pod1{}/{id}", &UID[1..]);
        for path in [
            systemd.as_str(),
            &cgroupfs,
            "kubepods/burstable",
            "system.slice/x",
        ] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        let mut pods = walk(root.path()).unwrap();
        pods.sort_by(|one, other| one.uid.cmp(&other.uid));
        assert_eq!(pods.len(), 2);
        assert_eq!(pods[0].uid.as_str(), UID);
        assert_eq!(pods[1].containers[0].0.as_str(), id);
        assert!(pods[0].containers[0].1.ends_with(&systemd));
        assert!(walk(&root.path().join("absent")).unwrap().is_empty());
    }
}
