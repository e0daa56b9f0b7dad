//! The harm that an app does, as data.

use serde::{Deserialize, Serialize};

/// An app that does all of this at its first instruction, prints `done`, and exits on command.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Mischief {
    /// Mounts in its own mount namespace, where it is root.
    pub mounts: Vec<MountTrick>,
    /// The name of its process; empty leaves it unchanged.
    pub name: Vec<u8>,
    /// It starts a process that is pid 1 of a nested pid namespace, and never exits.
    pub nests_pids: bool,
    /// The number of processes that it starts when it exits; they never exit.
    pub bomb: u32,
}

/// A change of mounts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum MountTrick {
    /// A mount with a root that looks like the termination log of a container of this name in the pod with this UID;
    /// None means its own pod.
    Claim {
        uid: Option<String>,
        container: String,
    },
    /// Its own termination log is unmounted.
    HideTerminationLog,
    /// A procfs with a mount over its first process.
    OverOwnProcess,
    /// This number of mounts, this many directories deep, with names that `/proc` has to escape.
    Many { mounts: usize, depth: usize },
}

impl Mischief {
    #[must_use]
    pub fn mounting(mut self, trick: MountTrick) -> Self {
        self.mounts.push(trick);
        self
    }

    /// Starts pid 1 of a nested pid namespace, as browsers and sandboxes do.
    #[must_use]
    pub const fn nesting_pids(mut self) -> Self {
        self.nests_pids = true;
        self
    }

    /// Sets the number of processes at its exit.
    #[must_use]
    pub const fn bomb(mut self, processes: u32) -> Self {
        self.bomb = processes;
        self
    }

    /// Sets the name of its process.
    #[must_use]
    pub fn named(mut self, name: &[u8]) -> Self {
        name.clone_into(&mut self.name);
        self
    }
}

impl MountTrick {
    /// The mount claims to be a container of a pod, or of its own pod without a UID.
    pub fn claim(uid: Option<&str>, container: &str) -> Self {
        Self::Claim {
            uid: uid.map(str::to_owned),
            container: container.to_owned(),
        }
    }
}
