//! What is open in a pod's network namespace, whose it is, and what goes
//! through the pod's mesh: `netstat` with the containers in it.
//!
//! Edges give a [`Scene`]: the kernel's sockets, the pod's containers, and who
//! holds which socket. [`Scene::judge`] joins them to rows, [`Conns`] is the
//! answer with them, and [`Filter`] what of it is shown. Whose a socket is, `owner` says; which way a connection
//! goes, `via`.
//!
//! A list of sockets is no picture of one moment, and parts of it may be
//! missing. What does not follow from what is there is unknown, and [`Why`]
//! says so; nothing is guessed.

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
    owner::Owner,
    report::Conns,
    row::{Backlog, Holder, How, OwnerKind, Row, RunningTimer, Way},
    via::{Via, Why},
};

/// Most sockets that are kept and judged; the rest is counted.
pub const MOST_SOCKETS: usize = 32 * 1024;

/// What a container is to its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It does the pod's work.
    App,
    /// It carries the pod's connections, or helps otherwise.
    Sidecar,
    /// It holds the pod's namespaces.
    Sandbox,
    /// Nobody who knows could be asked.
    Unknown,
}

/// A container of the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id.
    pub id: ContainerId,
    /// Its name in the pod, or what stands for it.
    pub name: String,
    /// What it is to its pod.
    pub role: Role,
}

/// Everything that was seen.
#[derive(Debug, Clone, Default)]
pub struct Scene {
    /// The sockets, at most [`MOST_SOCKETS`].
    pub sockets: Vec<Socket>,
    /// Sockets beyond those, or that could not be read: what goes through the
    /// mesh does not follow from the absence of another end then.
    pub is_partial: bool,
    /// Processes of the pod did not show what they hold.
    pub is_blind: bool,
    /// The pod's containers.
    pub containers: Vec<Container>,
    /// Processes of theirs.
    pub processes: Vec<Process>,
    /// Number of a socket, and place of a process that holds it; in order.
    pub held: Vec<(u32, u32)>,
    /// Number of a cgroup, and place of its container.
    pub cgroups: Vec<(u64, usize)>,
}

impl Scene {
    /// Joins everything. Sorted: listeners first, then by container and where
    /// the connections go.
    pub fn judge(&self) -> Vec<Row> {
        let owners = owner::of_all(self);
        let book = via::Book::new(self, &owners);
        let sockets = self.sockets.iter().enumerate();
        let mut rows: Vec<Row> = sockets
            .map(|(place, socket)| Row::new(self, socket, owners[place], book.via(place)))
            .collect();
        rows.sort_by(|one, other| one.rank().cmp(&other.rank()));
        rows
    }

    /// The processes that hold a socket.
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
