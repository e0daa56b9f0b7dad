//! The sockets of a pod's network namespace, with their owners and their path through the mesh: `netstat` with containers.
//!
//! [`Input`] has the kernel's sockets, the pod's containers, and the processes that hold each socket.
//! [`Input::judge`] joins them to rows, [`Conns`] is the report with these rows, and [`Filter`] selects from it. `owner`
//! finds the container of a socket, and `via` the path of a connection.
//!
//! A list of sockets is not a consistent snapshot, and parts of it may be missing. Nothing is guessed: a path that does
//! not follow from the list is unknown, with the reason in [`Why`].

mod filter;
mod owner;
mod report;
mod row;
mod via;

use usher_core::{
    base::id::ContainerId,
    node::socket::{Process, Socket},
};

pub use self::{
    filter::Filter,
    owner::{Owner, OwnerKind},
    report::Conns,
    row::{Backlog, Holder, How, Row, RunningTimer, Way},
    via::{Via, Why},
};

/// Limit of sockets in a report; further ones are counted.
pub const MAX_SOCKETS: usize = 32 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    App,
    Sidecar,
    /// The sandbox, which holds the pod's namespaces.
    Sandbox,
    /// Not known, because neither the agent nor the kubelet answered.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub id: ContainerId,
    /// Name in the pod, or a substitute.
    pub name: String,
    pub role: Role,
}

/// Everything that was read from the kernel.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// The sockets, at most [`MAX_SOCKETS`].
    pub sockets: Vec<Socket>,
    /// Whether sockets are missing. If so, the absence of the other end of a connection proves nothing.
    pub is_partial: bool,
    /// Whether the file descriptors of some processes could not be read.
    pub is_blind: bool,
    pub containers: Vec<Container>,
    pub processes: Vec<Process>,
    /// Inode of a socket, and index of a process that holds it; sorted.
    pub held: Vec<(u32, u32)>,
    /// ID of a cgroup, and index of its container.
    pub cgroups: Vec<(u64, usize)>,
}

impl Input {
    /// Joins everything to rows, sorted: listeners first, then by container and peer.
    pub fn judge(&self) -> Vec<Row> {
        let owners = owner::owners(self);
        let index = via::ConnectionIndex::new(self, &owners);
        let sockets = self.sockets.iter().enumerate();
        let mut rows: Vec<Row> = sockets
            .map(|(place, socket)| Row::new(self, socket, owners[place], index.via(place)))
            .collect();
        rows.sort_by(|one, other| one.rank().cmp(&other.rank()));
        rows
    }

    fn holders(&self, inode: u32) -> impl Iterator<Item = &Process> {
        let start = self.held.partition_point(|(held, _)| *held < inode);
        let pairs = self.held[start..].iter();
        let mine = pairs.take_while(move |(held, _)| inode != 0 && *held == inode);
        mine.filter_map(|(_, place)| self.processes.get(*place as usize))
    }

    fn role(&self, owner: Owner) -> Option<Role> {
        let container = self.containers.get(owner.container()?)?;
        Some(container.role)
    }
}

#[cfg(test)]
mod tests;
