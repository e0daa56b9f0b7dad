//! The node's cgroups: one directory per hierarchy, which is the root of the node's cgroup namespace.
//!
//! Inside, the kubelet sees roots of its own with `/kubepods` below them; nothing is shared with another kubelet.
//! On cgroup v2 the node's programs are in a leaf, because a group with controllers may have no processes of its own.
//! `/proc/self/mountinfo` lists the hierarchies (cgroups(7), proc_pid_mountinfo(5)).

mod hierarchy;

use std::{
    collections::BTreeSet,
    fmt, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;

use self::hierarchy::{Hierarchy, delegate_controllers, hierarchies};
use super::{process::wait_until, signal};

/// The mount point of every node's cgroups.
const ROOT: &str = "/sys/fs/cgroup";
/// The leaf for the node's own programs, on cgroup v2.
const LEAF: &str = "system";
const LIMIT: Duration = Duration::from_secs(30);

/// The node's view of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The v1 hierarchies, and v2 without controllers at `unified`.
    Hybrid,
    /// Only v2. On a hybrid machine it has no controllers, so limits are not enforced.
    V2,
}

impl FromStr for Layout {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "hybrid" => Ok(Self::Hybrid),
            "v2" => Ok(Self::V2),
            _ => bail!("cgroup layout {text:?}: hybrid or v2"),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hybrid => "hybrid",
            Self::V2 => "v2",
        })
    }
}

#[derive(Debug)]
pub(crate) struct NodeCgroups {
    name: String,
    hierarchies: Vec<Hierarchy>,
}

impl NodeCgroups {
    pub(crate) fn find(name: &str) -> Result<Self> {
        let mountinfo =
            fs::read_to_string("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
        let hierarchies = hierarchies(&mountinfo);
        if !hierarchies.iter().any(|hierarchy| hierarchy.v2) {
            bail!("cgroup v2 is not mounted on this machine: mount it at {ROOT}/unified");
        }
        Ok(Self {
            name: name.to_owned(),
            hierarchies,
        })
    }

    fn machine_has_v1(&self) -> bool {
        self.hierarchies.iter().any(|hierarchy| !hierarchy.v2)
    }

    pub(crate) fn default_layout(&self) -> Layout {
        if self.machine_has_v1() {
            Layout::Hybrid
        } else {
            Layout::V2
        }
    }

    /// On a hybrid machine the controllers belong to the v1 hierarchies.
    pub(crate) fn v2_has_controllers(&self) -> bool {
        !self.machine_has_v1()
    }

    pub(crate) fn create(&self, layout: Layout) -> Result<()> {
        if layout == Layout::Hybrid && !self.machine_has_v1() {
            bail!("this machine has cgroup v2 only: the hybrid layout is not possible, use v2");
        }
        for hierarchy in &self.hierarchies {
            if hierarchy.v2 {
                delegate_controllers(&hierarchy.mount)?;
            }
            let dir = self.directory(hierarchy);
            fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
            if hierarchy
                .options
                .split(',')
                .any(|option| option == "cpuset")
            {
                // A v1 cpuset is empty at first, and then no process may join it.
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    let value = fs::read(hierarchy.mount.join(file))
                        .with_context(|| format!("read {file}"))?;
                    fs::write(dir.join(file), value)
                        .with_context(|| format!("write {file} of {}", dir.display()))?;
                }
            }
        }
        Ok(())
    }

    /// The files that a process writes its pid to before it creates or enters the node's cgroup namespace.
    pub(crate) fn entrances(&self) -> Vec<PathBuf> {
        self.hierarchies
            .iter()
            .map(|hierarchy| {
                let dir = self.directory(hierarchy);
                let leaf = dir.join(LEAF);
                let entrance = if hierarchy.v2 && leaf.is_dir() {
                    leaf
                } else {
                    dir
                };
                entrance.join("cgroup.procs")
            })
            .collect()
    }

    /// Moves the first processes, which had to be at the namespace's root when it was created, into the leaf.
    pub(crate) fn settle(&self) -> Result<()> {
        for hierarchy in self.hierarchies.iter().filter(|hierarchy| hierarchy.v2) {
            let dir = self.directory(hierarchy);
            let leaf = dir.join(LEAF);
            fs::create_dir_all(&leaf).with_context(|| format!("create {}", leaf.display()))?;
            for pid in pids_in(&dir)? {
                fs::write(leaf.join("cgroup.procs"), pid.to_string())
                    .with_context(|| format!("move process {pid} to {}", leaf.display()))?;
            }
        }
        Ok(())
    }

    /// Lines `PLACE TYPE OPTIONS` for the node's mounts.
    pub(crate) fn mounts(&self, layout: Layout) -> String {
        if layout == Layout::V2 {
            return format!("{ROOT} cgroup2 rw\n");
        }
        let mut lines = format!("{ROOT} tmpfs mode=755\n");
        for hierarchy in &self.hierarchies {
            let name = hierarchy.mount.file_name().unwrap_or_default().display();
            lines += &match hierarchy.v2 {
                true => format!("{ROOT}/unified cgroup2 rw\n"),
                false => format!("{ROOT}/{name} cgroup {}\n", hierarchy.options),
            };
        }
        lines
    }

    /// Kills everything in the node's cgroups and waits for the exit.
    pub(crate) fn kill(&self) -> Result<()> {
        wait_until(LIMIT, "the end of the node's processes", || {
            let mut pids = BTreeSet::new();
            for hierarchy in &self.hierarchies {
                let dir = self.directory(hierarchy);
                let kill_all = dir.join("cgroup.kill");
                if kill_all.exists() {
                    // A group that is removed meanwhile has nothing to kill.
                    fs::write(&kill_all, "1").ok();
                }
                for group in tree(&dir) {
                    let frozen = group.join("freezer.state");
                    if frozen.exists() {
                        // Processes that a killed runc had frozen cannot exit before they are thawed (v1 only).
                        fs::write(&frozen, "THAWED").ok();
                    }
                    pids.extend(pids_in(&group)?);
                }
            }
            for pid in &pids {
                signal(*pid, Signal::SIGKILL)?;
            }
            Ok(pids.is_empty())
        })
    }

    pub(crate) fn remove(&self) -> Result<()> {
        wait_until(LIMIT, "the removal of the node's cgroups", || {
            let mut left = false;
            for hierarchy in &self.hierarchies {
                // Deepest first. A group is busy for a moment after its last process.
                for group in tree(&self.directory(hierarchy)).iter().rev() {
                    left |= fs::remove_dir(group)
                        .is_err_and(|error| error.kind() != ErrorKind::NotFound);
                }
            }
            Ok(!left)
        })
    }

    fn directory(&self, hierarchy: &Hierarchy) -> PathBuf {
        hierarchy.mount.join(&self.name)
    }
}

/// A group and all groups below it, parents first; empty if it does not exist.
fn tree(dir: &Path) -> Vec<PathBuf> {
    let mut groups = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(group) = todo.pop() {
        let Ok(entries) = fs::read_dir(&group) else {
            continue;
        };
        let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        todo.extend(entries.flatten().filter(is_dir).map(|entry| entry.path()));
        groups.push(group);
    }
    groups
}

fn pids_in(group: &Path) -> Result<Vec<i32>> {
    match fs::read_to_string(group.join("cgroup.procs")) {
        // 0 is a process that this pid namespace cannot see; a working setup has none.
        Ok(text) => Ok(text
            .lines()
            .filter_map(|line| line.parse().ok())
            .filter(|pid| *pid > 0)
            .collect()),
        // Gone, or exiting.
        Err(error)
            if error.kind() == ErrorKind::NotFound
                || error.raw_os_error() == Some(nix::libc::ENODEV) =>
        {
            Ok(Vec::new())
        }
        Err(error) => {
            Err(error).with_context(|| format!("read the processes of {}", group.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/x,name=systemd\n\
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
50 31 0:38 / /elsewhere/unified rw,relatime - cgroup2 cgroup2 rw\n";

    fn node(mountinfo: &str) -> NodeCgroups {
        NodeCgroups {
            name: "usher-x".into(),
            hierarchies: hierarchies(mountinfo),
        }
    }

    #[test]
    fn hybrid_layout_is_remounted_unchanged() {
        let node = node(HYBRID);
        assert_eq!(node.default_layout(), Layout::Hybrid);
        assert_eq!(
            node.mounts(Layout::Hybrid),
            "/sys/fs/cgroup tmpfs mode=755\n/sys/fs/cgroup/cpu,cpuacct cgroup cpu,cpuacct\n\
             /sys/fs/cgroup/systemd cgroup name=systemd\n/sys/fs/cgroup/unified cgroup2 rw\n"
        );
        assert_eq!(node.mounts(Layout::V2), "/sys/fs/cgroup cgroup2 rw\n");
    }

    #[test]
    fn v2_machine_cannot_be_hybrid() {
        let node = node(
            "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        );
        assert_eq!(node.default_layout(), Layout::V2);
        let error = node.create(Layout::Hybrid).unwrap_err();
        assert!(error.to_string().contains("v2 only"), "{error}");
    }

    #[test]
    fn layout_name_round_trips() {
        for layout in [Layout::Hybrid, Layout::V2] {
            assert_eq!(layout.to_string().parse::<Layout>().unwrap(), layout);
        }
        assert!("v1".parse::<Layout>().is_err());
    }
}
