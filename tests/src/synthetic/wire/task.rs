//! What a runtime exposes of a container during its start, and how fast it is.
//!
//! With containerd that is a directory named after the container, with the
//! container's configuration, its mounted root and the pid of its init process
//! (containerd `runtime/v2/bundle.go`, `pkg/process/init.go`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A container in its bundle.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// The annotations of `config.json`.
    pub annotations: BTreeMap<String, String>,
    /// The overlay's upper and work directory, and the fifo at which
    /// the init process waits for its start.
    pub snapshot: PathBuf,
    /// A host directory with the program, for containers with the program on a volume.
    pub volume: PathBuf,
    /// The location of its first program.
    pub entry: Entry,
    /// Deviations of its bundle.
    pub shape: Shape,
}

/// The first program of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    #[default]
    Root,
    /// A program on a volume, which is a mount of its own.
    Volume,
    /// A script on its root, with the program as interpreter.
    Script,
    /// A program that is mounted over the one on its root.
    MountedOver,
}

impl Entry {
    pub const ALL: [Self; 4] = [Self::Root, Self::Volume, Self::Script, Self::MountedOver];

    pub const fn path(self) -> &'static str {
        match self {
            Self::Root | Self::MountedOver => "/pod",
            Self::Volume => "/volume/pod",
            Self::Script => "/script",
        }
    }
}

/// Deviations of a bundle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The text of `config.json`.
    pub config: ConfigText,
    /// The mount at `rootfs`.
    pub root: Root,
    /// The bundle's name is a symbolic link to a directory elsewhere.
    pub linked: bool,
}

/// The text of `config.json`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigText {
    /// As the runtime writes it.
    #[default]
    Whole,
    Garbage,
    /// Valid, with this number of additional bytes.
    Padded(usize),
    /// Half of it, and the rest after a while.
    InParts(Duration),
}

/// The mount at `rootfs`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Root {
    #[default]
    Overlay,
    /// A directory of the node's own file system, as with snapshotters that copy.
    Bind,
    /// An overlay with a program that its mounter may execute but not read, so that the kernel can open it for no
    /// process ([`ovl_open_realfile`](https://github.com/torvalds/linux/blob/v6.12/fs/overlayfs/file.c)). A pod with
    /// `hostUsers: false` has such a program where the owner is outside of the mapped users and the mode is 0711. The
    /// container exits with the error number of its exec.
    Unreadable,
}

/// The durations of the steps in the lifecycle of a container. Zero means as fast as possible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// With bundles: from the creation of `config.json` to the mount of the root.
    pub mount: Duration,
    /// With bundles: from the mount to the cgroup.
    pub create: Duration,
    /// The lifetime of the first process in the cgroup, before it creates the init process (1-3 ms with runc).
    pub stage: Duration,
    /// From the init process having its mounts to its execve (20-40 ms); with
    /// bundles from `init.pid` (9-14 ms).
    pub exec: Duration,
    /// From the exit of the init process, which is reaped at once, to the
    /// removal of the cgroup directory (14-45 ms), and to the report to the test.
    pub removal: Duration,
}

impl Pace {
    /// Measured with containerd and runc.
    pub const RUNC: Self = Self {
        mount: Duration::ZERO,
        create: Duration::ZERO,
        stage: Duration::from_millis(2),
        exec: Duration::from_millis(25),
        removal: Duration::from_millis(20),
    };

    /// The same with bundles, where the steps before the cgroup are visible: the
    /// medians of single pods on an idle machine.
    pub const CONTAINERD: Self = Self {
        mount: Duration::from_millis(9),
        create: Duration::from_millis(25),
        stage: Duration::from_millis(2),
        exec: Duration::from_millis(11),
        removal: Duration::from_millis(20),
    };
}
