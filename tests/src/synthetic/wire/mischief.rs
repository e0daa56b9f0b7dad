//! What an app does that means harm, as data.

use serde::{Deserialize, Serialize};

/// An app that does all of this at its first instruction, prints `done`, and exits on command.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Mischief {
    /// In its own mount namespace, where it is root.
    pub mounts: Vec<MountTrick>,
    /// Bytes of its process's name; empty leaves it as it is.
    pub name: Vec<u8>,
    /// How many processes it makes at its end, which end by themselves never.
    pub bomb: u32,
}

/// Something done to mounts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum MountTrick {
    /// A mount whose root reads like the termination log of a container of this name in the pod with this UID;
    /// None is its own pod.
    Claim {
        uid: Option<String>,
        container: String,
    },
    /// Its own termination log is not mounted any more.
    HideTerminationLog,
    /// A procfs with something else over its first process.
    OverOwnProcess,
    /// So many mounts, so many directories deep, with names that `/proc` has to escape.
    Many { mounts: usize, depth: usize },
}

impl Mischief {
    /// With one more mount trick.
    #[must_use]
    pub fn mounting(mut self, trick: MountTrick) -> Self {
        self.mounts.push(trick);
        self
    }

    /// With so many processes at its end.
    #[must_use]
    pub const fn bomb(mut self, processes: u32) -> Self {
        self.bomb = processes;
        self
    }

    /// Its process has this name.
    #[must_use]
    pub fn named(mut self, name: &[u8]) -> Self {
        name.clone_into(&mut self.name);
        self
    }
}

impl MountTrick {
    /// The mount names a container of a pod, its own one without a UID.
    pub fn claim(uid: Option<&str>, container: &str) -> Self {
        Self::Claim {
            uid: uid.map(str::to_owned),
            container: container.to_owned(),
        }
    }
}
