//! The cgroup hierarchies of the machine, from `/proc/self/mountinfo`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::ROOT;

/// The controllers that a kubelet requires on cgroup v2.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "io", "memory", "pids"];

/// A mounted hierarchy of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) mount: PathBuf,
    pub(super) v2: bool,
    /// The options for another mount: `cpu,cpuacct`, `name=systemd`; empty for v2.
    pub(super) options: String,
}

/// The hierarchies in the text of `/proc/PID/mountinfo`, each once.
pub(super) fn hierarchies(mountinfo: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mountinfo.lines() {
        let Some((mount, filesystem)) = line.split_once(" - ") else {
            continue;
        };
        let Some(place) = mount.split(' ').nth(4) else {
            continue;
        };
        let mut words = filesystem.split(' ');
        let kind = words.next().unwrap_or_default();
        if !place.starts_with(ROOT) || !["cgroup", "cgroup2"].contains(&kind) {
            continue;
        }
        let v2 = kind == "cgroup2";
        // Of the super block's options only the controllers and the name identify the hierarchy.
        let shown = words.nth(1).unwrap_or_default();
        let skip = |option: &&str| {
            !["rw", "ro", "xattr", "clone_children"].contains(option)
                && !option.starts_with("release_agent")
        };
        let options = if v2 {
            String::new()
        } else {
            shown.split(',').filter(skip).collect::<Vec<_>>().join(",")
        };
        let hierarchy = Hierarchy {
            mount: place.into(),
            v2,
            options,
        };
        if !found
            .iter()
            .any(|other| other.v2 == v2 && other.options == hierarchy.options)
        {
            found.push(hierarchy);
        }
    }
    found
}

/// Delegates the controllers that v2 has here to groups below the root; on a hybrid machine it has none.
pub(super) fn delegate_controllers(root: &Path) -> Result<()> {
    let available = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    let file = root.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&file).unwrap_or_default();
    let has = |list: &str, controller: &str| list.split_whitespace().any(|word| word == controller);
    for controller in CONTROLLERS
        .iter()
        .filter(|name| has(&available, name) && !has(&enabled, name))
    {
        fs::write(&file, format!("+{controller}"))
            .with_context(|| format!("enable {controller} in {}", file.display()))?;
    }
    Ok(())
}
