//! What a runtime shows of a container while it starts it, and how fast it is.
//!
//! With containerd that is a directory named after the container, with the
//! container's configuration, its mounted root and the pid of its init process
//! (containerd `runtime/v2/bundle.go`, `pkg/process/init.go`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The container as its bundle shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// The annotations of `config.json`.
    pub annotations: BTreeMap<String, String>,
    /// Where the overlay's upper and work directory are, and the fifo at which
    /// the init process waits to be started.
    pub snapshot: PathBuf,
    /// A host directory with the program, for containers that have it on a volume.
    pub volume: PathBuf,
    /// Where its first program lies.
    pub entry: Entry,
    /// What is unusual about its bundle.
    pub shape: Shape,
}

/// What a container executes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// A program on its root.
    #[default]
    Root,
    /// A program on a volume, which is a mount of its own.
    Volume,
    /// A script on its root, whose interpreter is the program.
    Script,
    /// A program that is mounted over the one on its root.
    MountedOver,
}

impl Entry {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Root, Self::Volume, Self::Script, Self::MountedOver];

    /// Its path in the container.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Root | Self::MountedOver => "/pod",
            Self::Volume => "/volume/pod",
            Self::Script => "/script",
        }
    }
}

/// What may be unusual about a bundle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// What `config.json` is like.
    pub config: ConfigText,
    /// What is mounted at `rootfs`.
    pub root: Root,
    /// The bundle's name is a symbolic link to a directory elsewhere.
    pub linked: bool,
}

/// What `config.json` is like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigText {
    /// As the runtime writes it.
    #[default]
    Whole,
    /// No JSON.
    Garbage,
    /// The same with so many bytes more.
    Padded(usize),
    /// Half of it, and the rest after a while.
    InParts(Duration),
}

/// What is mounted at `rootfs`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Root {
    /// An overlay of its own.
    #[default]
    Overlay,
    /// A directory of the node's own file system, as with snapshotters that copy.
    Bind,
}

/// How long the steps of a container's life take. Zero is as fast as it goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// With bundles: from `config.json` being there to the mount of the root.
    pub mount: Duration,
    /// With bundles: from the mount to the cgroup.
    pub create: Duration,
    /// Life of the first process in the cgroup, before it makes the init
    /// process (1-3 ms with runc).
    pub stage: Duration,
    /// From the init process having its mounts to its execve (20-40 ms); with
    /// bundles from `init.pid` (9-14 ms).
    pub exec: Duration,
    /// From the end of the init process, which is reaped at once, to the
    /// removal of the cgroup directory (14-45 ms), and to the test hearing of it.
    pub removal: Duration,
}

impl Pace {
    /// What was measured with containerd and runc.
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
