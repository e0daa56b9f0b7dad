//! The messages between a test process and the processes of its pods.
//!
//! A test writes [`Command`]s to the standard input of a pod's shim, one JSON
//! object a line. All shims of a node write [`Event`]s to one shared pipe; a
//! line is shorter than `PIPE_BUF` and written at once, so lines never mix
//! ([pipe(7)](https://man7.org/linux/man-pages/man7/pipe.7.html)).

mod holding;
mod mischief;
mod network;
mod sidecar;
mod task;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use holding::Holding;
pub use mischief::{Mischief, MountTrick};
pub use network::{Added, Announcement, Capture, Client, Wait};
pub use sidecar::{
    Answer, Child, Effect, Listen, Listener, Manner, Place, Reaction, Route, Sidecar, Speech,
};
pub use task::{ConfigText, Entry, Pace, Root, Shape, Task};

/// Orders to the shim of one pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Command {
    /// Create and start a container.
    Create(Box<Order>),
    /// Write a line to the standard input of a container's process.
    SendLine { id: String, line: String },
    /// Send a signal to a container's init process.
    Signal { id: String, number: i32 },
    /// Use a new network namespace for later containers.
    /// The old one is gone when the old containers are.
    RenewNetwork,
    /// Run a script of the `nft` program in the network namespace.
    Filter(String),
    /// Run a program in a container that has an init process, as `kubectl exec`
    /// and exec probes do. The order's id is that of the exec.
    Exec {
        container: String,
        order: Box<Order>,
    },
}

/// The arguments of a shim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sandbox {
    pub uid: String,
    /// The pod's directory in the cgroup tree; the shim makes it.
    pub cgroup: PathBuf,
    pub network_delay: Duration,
    /// The node's network namespace instead of one of its own.
    pub host_network: bool,
    /// A user namespace of its own, which owns the network namespace.
    pub own_users: bool,
    /// It has an interface and a default route.
    pub routed: bool,
    /// Rules that exist before the first container, as a script of the
    /// `nft` program; empty for none.
    pub filter: String,
    /// Announced before the first container.
    pub announcement: Option<Announcement>,
    /// The shim is in the node's mount namespace already, and stays there.
    pub bundles: bool,
}

/// An order to create a container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// The runtime's id, 64 hex digits.
    pub id: String,
    /// The container's directory in the cgroup tree.
    pub cgroup: PathBuf,
    /// The subdirectory for the processes, which crun creates.
    pub subgroup: Option<String>,
    /// The directory of the container's monitor, which CRI-O creates.
    pub monitor: Option<PathBuf>,
    /// The directory that is mounted as the container's root; with a task the overlay's
    /// lower one.
    pub root: PathBuf,
    /// Where the root is mounted before the container's process enters it; the
    /// path contains the id, as a runtime's bundle does.
    pub bundle: PathBuf,
    /// What the runtime exposes in the bundle, on a node with bundles.
    pub task: Option<Task>,
    /// The termination log; a sandbox has none.
    pub termination_log: Option<PathBuf>,
    /// Other files of the node that are mounted into the container, each with its mount point.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Its pid namespace.
    pub pids: Pids,
    /// The pid of its init process, in the test's pid namespace.
    pub pid: Option<i32>,
    /// The process of the user namespace that the container enters; set by the
    /// shim.
    pub users: Option<i32>,
    /// The process of the network namespace that it enters on the command `enter-network`.
    pub enters_network_of: Option<i32>,
    /// Its user and group; None means root.
    pub user: Option<u32>,
    pub env: Vec<(String, String)>,
    pub pace: Pace,
    /// The task of the process.
    pub program: Program,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pids {
    Own,
    /// The pid namespace of this process, the pod's sandbox.
    Of(i32),
    Host,
}

/// The task of a container's init process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Program {
    /// Holds the sandbox; exits on SIGTERM.
    Pause,
    /// Executes a program repeatedly, as fast as possible and at least this
    /// number of times, until it reads a line from its standard input. Then it prints
    /// `executed <count>` and exits with 0. For a program that a signal ended it prints
    /// `struck <number>`.
    Execs(u32),
    /// Exits on command, or after a while.
    App(End),
    /// Connects.
    Client(Client),
    /// Holds sockets open until it is terminated.
    Holding(Holding),
    /// Does as much harm as it can, and exits on command.
    Mischief(Mischief),
    /// Creates a mesh's rules, as an init container does, and exits.
    Capture(Capture),
    /// The in-container baseline: runs the app as its child, sends a quit request
    /// to this port when the app has exited, and exits with its code.
    Wrapper { port: u16, app: End },
    /// Serves.
    Sidecar(Sidecar),
    /// Runs the sidecar as its child and exits with its code, as a shell does
    /// that was started as `sh -c "...; sidecar"` and does not exec. It has no
    /// signal handlers.
    Shell(Sidecar),
    /// The child of a sidecar: see [`Child`].
    Proxy(Child),
}

/// How an app exits.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum End {
    /// On the line `exit <code>` on its standard input.
    OnCommand,
    /// After a while.
    After { life: Duration, code: u8 },
}

/// What a shim reports.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    pub uid: String,
    /// The container's id; empty for the shim itself.
    pub id: String,
    pub what: What,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum What {
    /// It has an init process, with this pid in the test's pid namespace.
    Created { pid: i32 },
    /// The runtime has started it: the kubelet reports it as running.
    Started,
    /// The init process has executed its program. The time of the first instruction
    /// in nanoseconds.
    Running { at_ns: u64 },
    /// A process of the container wrote a line to its standard error.
    Line(String),
    /// The init process ended and was reaped.
    Ended { wait_status: i32, output: String },
    /// The CNI plugin was called.
    Added(Added),
    /// A step failed.
    Failed(String),
}
