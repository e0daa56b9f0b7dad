//! The state directory: a description of the cluster in files that outlive the process that wrote them.

use std::{
    fs::{self, File},
    net::Ipv4Addr,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Component;
use crate::{
    node::{address::Link, cgroup::Layout},
    programs::{Containerd, Kubernetes, OciRuntime},
};

/// Everything below the state directory that must exist before the node starts.
const DIRECTORIES: [&str; 10] = [
    "bin",
    "cni/bin",
    "cni/net.d",
    "conf",
    "container-logs",
    "containerd",
    "etcd",
    "kube",
    "log",
    "pid",
];

/// The choices that may not change while the cluster exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) link: Link,
    pub(super) layout: Layout,
    pub(super) kubernetes: Kubernetes,
    pub(super) containerd: Containerd,
    pub(super) runtime: OciRuntime,
}

#[derive(Debug)]
pub(super) struct State {
    dir: PathBuf,
}

impl State {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn conf(&self, name: &str) -> PathBuf {
        self.dir.join("conf").join(name)
    }

    pub(super) fn pki(&self, name: &str) -> PathBuf {
        self.dir.join("pki").join(name)
    }

    pub(super) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.dir.join("kube").join(format!("{user}.conf"))
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.dir.join("log/audit.log")
    }

    pub(super) fn pid_file(&self, component: Component) -> PathBuf {
        self.dir.join("pid").join(component.to_string())
    }

    pub(super) fn kubernetes(&self) -> PathBuf {
        self.dir.join("bin/kubernetes")
    }

    pub(super) fn kubectl(&self) -> PathBuf {
        self.dir.join("bin/kubectl")
    }

    /// Locks the cluster against changes until the returned file is dropped. Creates the directory.
    pub(super) fn lock(&self) -> Result<File> {
        let path = self.dir.join("lock");
        loop {
            fs::create_dir_all(&self.dir)
                .with_context(|| format!("create {}", self.dir.display()))?;
            let file = match File::create(&path) {
                // The holder of the lock is removing the directory.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                file => file.with_context(|| format!("create {}", path.display()))?,
            };
            file.lock()
                .with_context(|| format!("lock {}", path.display()))?;
            // The previous owner of the lock may have removed the cluster, and the file with it.
            let ours = file.metadata().context("look at the lock")?;
            if fs::metadata(&path)
                .is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()))
            {
                return Ok(file);
            }
        }
    }

    pub(super) fn facts(&self) -> Option<Facts> {
        let facts: Value =
            serde_json::from_slice(&fs::read(self.dir.join("cluster.json")).ok()?).ok()?;
        let host: Ipv4Addr = facts["host"].as_str()?.parse().ok()?;
        Some(Facts {
            link: Link::from_host(host),
            layout: facts["cgroups"].as_str()?.parse().ok()?,
            kubernetes: parsed(&facts["kubernetes"])?,
            containerd: parsed(&facts["containerd"])?,
            runtime: parsed(&facts["runtime"])?,
        })
    }

    pub(super) fn write_facts(&self, facts: &Facts) -> Result<()> {
        let text = json!({
            "host": facts.link.host().to_string(),
            "cgroups": facts.layout.to_string(),
            "kubernetes": facts.kubernetes.to_string(),
            "containerd": facts.containerd.to_string(),
            "runtime": facts.runtime.to_string(),
        });
        fs::create_dir_all(&self.dir).with_context(|| format!("create {}", self.dir.display()))?;
        replace(&self.dir.join("cluster.json"), text.to_string().as_bytes())
    }

    pub(super) fn create_directories(&self, cni_plugins: &[PathBuf]) -> Result<()> {
        for name in DIRECTORIES {
            let dir = self.dir.join(name);
            fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        }
        for plugin in cni_plugins {
            let copy = self
                .dir
                .join("cni/bin")
                .join(plugin.file_name().unwrap_or_default());
            fs::copy(plugin, &copy).with_context(|| format!("copy {}", plugin.display()))?;
        }
        Ok(())
    }

    /// Puts a program at the start of the node's search path.
    pub(super) fn link(&self, program: &Path) -> Result<()> {
        let name = program.file_name().unwrap_or_default();
        let link = self.dir.join("bin").join(name);
        let fresh = link.with_extension("new");
        if fresh.symlink_metadata().is_ok() {
            fs::remove_file(&fresh).with_context(|| format!("remove {}", fresh.display()))?;
        }
        std::os::unix::fs::symlink(program, &fresh)
            .with_context(|| format!("link {}", fresh.display()))?;
        fs::rename(&fresh, &link).with_context(|| format!("rename to {}", link.display()))
    }

    /// Puts `kubernetes` and `kubectl` there.
    pub(super) fn link_kubernetes(&self, program: &Path) -> Result<()> {
        self.link(program)?;
        let link = self.kubernetes();
        let kubectl = self.kubectl();
        replace(
            &kubectl,
            format!("#!/bin/sh\nexec '{}' kubectl \"$@\"\n", link.display()).as_bytes(),
        )?;
        fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("make {} executable", kubectl.display()))
    }

    /// Runs `import` unless it succeeded before for this archive: its path in the cache has the key of its content.
    pub(super) fn once_per_image(
        &self,
        archive: &Path,
        import: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let list = self.dir.join("imported");
        let before = fs::read_to_string(&list).unwrap_or_default();
        if before.lines().any(|line| Path::new(line) == archive) {
            return Ok(());
        }
        import()?;
        // The image replaced another one of the same name and tag.
        let others = before
            .lines()
            .filter(|line| Path::new(line).file_name() != archive.file_name());
        let text: String = others.map(|line| format!("{line}\n")).collect();
        replace(&list, format!("{text}{}\n", archive.display()).as_bytes())
    }

    pub(super) fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("remove {}", self.dir.display()))
            }
            _ => Ok(()),
        }
    }
}

/// The default if it is missing: the cluster was created before there was a choice.
fn parsed<T: FromStr + Default>(fact: &Value) -> Option<T> {
    fact.as_str().map_or(Ok(T::default()), str::parse).ok()
}

/// Writes a file atomically.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    fs::write(&fresh, content).with_context(|| format!("write {}", Path::new(&fresh).display()))?;
    fs::rename(&fresh, path).with_context(|| format!("rename to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::new(dir.path().to_owned());
        assert_eq!(state.facts(), None);
        let facts = Facts {
            link: Link::choose("n", &[]).unwrap(),
            layout: Layout::V2,
            kubernetes: Kubernetes::V1_32,
            containerd: Containerd::Two,
            runtime: OciRuntime::Crun,
        };
        state.write_facts(&facts).unwrap();
        assert_eq!(state.facts(), Some(facts));
    }

    #[test]
    fn image_is_imported_once_and_again_after_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::new(dir.path().to_owned());
        let archive = Path::new("/cache/images-1/app.tar");
        assert!(
            state
                .once_per_image(archive, || anyhow::bail!("no"))
                .is_err()
        );
        let mut count = 0;
        for _ in 0..2 {
            let import = || {
                count += 1;
                Ok(())
            };
            state.once_per_image(archive, import).unwrap();
        }
        assert_eq!(count, 1);
    }

    #[test]
    fn replaced_image_is_imported_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::new(dir.path().to_owned());
        let mut count = 0;
        for archive in [
            "/images-1/app.tar",
            "/images-2/app.tar",
            "/images-1/app.tar",
        ] {
            let import = || {
                count += 1;
                Ok(())
            };
            state.once_per_image(Path::new(archive), import).unwrap();
        }
        assert_eq!(count, 3);
    }
}
