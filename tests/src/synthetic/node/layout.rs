//! Names and directories: the cgroup tree of a node, its scratch directory, and
//! the leftovers of a killed test.
//!
//! All names that a node creates contain the pid of its test process,
//! so a later run can detect that the owner is dead.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::synthetic::machine;

/// The prefix of every directory that a node creates.
const PREFIX: &str = "usher-synthetic-";
const CGROUP_LIMIT: Duration = Duration::from_secs(20);

/// The cgroup driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// `kubepods/besteffort/pod<UID>/<id>`
    Cgroupfs,
    /// `kubepods.slice/kubepods-besteffort.slice/...slice/cri-containerd-<id>.scope`
    Systemd,
}

/// The container runtime, which defines the names of directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// `<id>`, `cri-containerd-<id>.scope`
    Containerd,
    /// `crio-<id>`, `crio-<id>.scope`, each with a `crio-conmon-<id>` for its
    /// monitor.
    Crio,
    /// The same; with the systemd driver crun, which is CRI-O's default,
    /// puts the processes one level lower, into `container`
    /// (crun(1), `run.oci.systemd.subgroup`).
    CrioWithCrun,
}

impl Runtime {
    /// The prefix of ids in a pod's status.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Crio | Self::CrioWithCrun => "cri-o",
        }
    }
}

/// A pod's QoS class, which is a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qos {
    /// Directly below `kubepods`.
    Guaranteed,
    Burstable,
    BestEffort,
}

impl Qos {
    const fn directory(self) -> Option<&'static str> {
        match self {
            Self::Guaranteed => None,
            Self::Burstable => Some("burstable"),
            Self::BestEffort => Some("besteffort"),
        }
    }

    /// The name in a pod's status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

impl Driver {
    /// The directories that exist before any pod, parents first.
    pub fn parents(self, root: &Path) -> Vec<PathBuf> {
        let classes = [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort];
        classes.iter().map(|qos| self.parent(root, *qos)).collect()
    }

    fn parent(self, root: &Path, qos: Qos) -> PathBuf {
        match (self, qos.directory()) {
            (Self::Cgroupfs, None) => root.join("kubepods"),
            (Self::Cgroupfs, Some(class)) => root.join("kubepods").join(class),
            (Self::Systemd, None) => root.join("kubepods.slice"),
            (Self::Systemd, Some(class)) => root
                .join("kubepods.slice")
                .join(format!("kubepods-{class}.slice")),
        }
    }

    /// A pod's directory.
    pub fn pod(self, root: &Path, qos: Qos, uid: &str) -> PathBuf {
        let name = match (self, qos.directory()) {
            (Self::Cgroupfs, _) => format!("pod{uid}"),
            (Self::Systemd, None) => format!("kubepods-pod{}.slice", uid.replace('-', "_")),
            (Self::Systemd, Some(class)) => {
                format!("kubepods-{class}-pod{}.slice", uid.replace('-', "_"))
            }
        };
        self.parent(root, qos).join(name)
    }

    /// The name of a container's directory.
    pub fn container(self, runtime: Runtime, id: &str) -> String {
        match (self, runtime) {
            (Self::Cgroupfs, Runtime::Containerd) => id.to_owned(),
            (Self::Cgroupfs, _) => format!("crio-{id}"),
            (Self::Systemd, Runtime::Containerd) => format!("cri-containerd-{id}.scope"),
            (Self::Systemd, _) => format!("crio-{id}.scope"),
        }
    }

    /// The directory in a container's directory that has its processes, if they are
    /// not in the container's directory itself.
    pub fn subgroup(self, runtime: Runtime) -> Option<&'static str> {
        (self == Self::Systemd && runtime == Runtime::CrioWithCrun).then_some("container")
    }

    /// The directory of a container's monitor, if it is in the pod's directory.
    pub fn monitor(self, runtime: Runtime, id: &str) -> Option<String> {
        let end = match self {
            Self::Cgroupfs => "",
            Self::Systemd => ".scope",
        };
        (runtime != Runtime::Containerd).then(|| format!("crio-conmon-{id}{end}"))
    }
}

/// The mount point of cgroup2: field 5 of the line with the file system type
/// `cgroup2`
/// ([proc_pid_mountinfo(5)](https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html)).
pub fn cgroup2_mount() -> Option<PathBuf> {
    mounts_of("cgroup2").into_iter().next()
}

fn mounts_of(kind: &str) -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let is_it = file_system.split(' ').next() == Some(kind);
        let point = mount.split(' ').nth(4)?;
        is_it.then(|| PathBuf::from(point))
    });
    points.collect()
}

/// A name for a directory of this process.
pub fn name(rest: &str) -> String {
    format!("{PREFIX}{}-{rest}", std::process::id())
}

/// The parent of all scratch directories.
pub fn scratch_parent() -> PathBuf {
    std::env::temp_dir()
}

/// Removes leftovers of dead test processes.
pub fn sweep() {
    let mut mounts: Vec<PathBuf> = cgroup2_mount().into_iter().collect();
    if !machine::is_own() {
        // A test in a machine of its own leaves these alone: they, and the pids in their names,
        // belong to the real machine.
        mounts.extend(mounts_of("cgroup"));
    }
    for path in mounts.iter().flat_map(|mount| leftovers(mount)) {
        remove_cgroup(&path);
    }
    for path in leftovers(&scratch_parent()) {
        // Another test process may sweep at the same time.
        drop(std::fs::remove_dir_all(&path).or_else(|_no_directory| std::fs::remove_file(&path)));
    }
}

fn leftovers(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| {
                let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
                pid.parse::<u32>().ok()
            });
            owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
        })
        .map(|entry| entry.path())
        .collect()
}

/// Kills all processes in a cgroup that this library made, and removes it.
pub fn remove_cgroup(path: &Path) {
    let started = Instant::now();
    // The directory may vanish at any moment, which is the goal.
    let kill = path.join("cgroup.kill");
    if kill.exists() {
        drop(std::fs::write(kill, "1"));
    } else {
        kill_each(path);
    }
    while path.exists() && started.elapsed() < CGROUP_LIMIT {
        remove_tree(path);
        // The processes are killed; their parents have to reap them.
        std::thread::yield_now();
    }
}

/// The substitute for `cgroup.kill`, which cgroup v1 lacks.
fn kill_each(cgroup: &Path) {
    let text = std::fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let pids = text.lines().filter_map(|line| line.parse().ok());
    // Processes of another pid namespace have pid 0 here, which is this group to kill(2).
    for pid in pids.filter(|pid| *pid > 0) {
        // The process may have exited.
        kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
    }
}

/// `rmdir` from the leaves up: a cgroup's files cannot and need not be
/// unlinked. Cgroups with processes stay.
pub fn remove_tree(path: &Path) {
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    drop(std::fs::remove_dir(path));
}
