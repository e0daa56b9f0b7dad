//! What a test process and the processes of its pods say to each other.
//!
//! A test writes [`Command`]s to the standard input of a pod's shim, one JSON
//! object a line. All shims of a node write [`Event`]s to one shared pipe; a
//! line is below `PIPE_BUF` and written at once, so lines never mix
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
    /// Make and start a container.
    Create(Box<Order>),
    /// Write a line to the standard input of a container's process.
    Tell { id: String, line: String },
    /// Send a signal to a container's init process.
    Signal { id: String, number: i32 },
    /// Give the containers that are made from now on a new network namespace.
    /// The old one is gone when the old containers are.
    RenewNetwork,
    /// Run a script of the `nft` program in the network namespace.
    Filter(String),
    /// Run a program in a container that has an init process, as `kubectl exec`
    /// and exec probes do. The order's id is that of the run.
    Exec {
        container: String,
        order: Box<Order>,
    },
}

/// What a shim is started with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sandbox {
    /// The pod's UID.
    pub uid: String,
    /// The pod's directory in the cgroup tree; the shim makes it.
    pub cgroup: PathBuf,
    /// Time between the pod's directory and its network namespace.
    pub network_delay: Duration,
    /// The node's network namespace instead of one of its own.
    pub host_network: bool,
    /// A user namespace of its own, to which the network namespace belongs.
    pub own_users: bool,
    /// It has an interface and a default route.
    pub routed: bool,
    /// Rules that are there before the first container, as a script of the
    /// `nft` program; empty for none.
    pub filter: String,
    /// Announced before the first container.
    pub announcement: Option<Announcement>,
    /// The shim is in the node's mount namespace already, and stays there.
    pub bundles: bool,
}

/// One container to make.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// The runtime's id, 64 hex digits.
    pub id: String,
    /// The container's directory in the cgroup tree.
    pub cgroup: PathBuf,
    /// A directory in it for the processes, which crun makes.
    pub subgroup: Option<String>,
    /// The directory of the container's monitor, which CRI-O makes.
    pub monitor: Option<PathBuf>,
    /// The directory to bind as the container's root; with a task the overlay's
    /// lower one.
    pub root: PathBuf,
    /// Where the root is mounted before the container's process takes it; the
    /// path contains the id, as a runtime's bundle does.
    pub bundle: PathBuf,
    /// What the runtime shows in the bundle, on a node that has them.
    pub task: Option<Task>,
    /// The termination log; a sandbox has none.
    pub termination_log: Option<PathBuf>,
    /// Where its processes are numbered.
    pub pids: Pids,
    /// The pid that its init process is to have, in the test's pid namespace.
    pub pid: Option<i32>,
    /// The process whose user namespace the container enters; the shim knows
    /// it.
    pub users: Option<i32>,
    /// The process whose network namespace it enters on the command `visit`.
    pub visits: Option<i32>,
    /// Its user and group; None is root.
    pub user: Option<u32>,
    /// Variables of its environment.
    pub env: Vec<(String, String)>,
    /// Delays between the steps.
    pub pace: Pace,
    /// What the process does.
    pub program: Program,
}

/// The pid namespace of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pids {
    /// One of its own.
    Own,
    /// That of this process, the pod's sandbox.
    Of(i32),
    /// The node's.
    Host,
}

/// What the init process of a container does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Program {
    /// Holds the sandbox; ends on SIGTERM.
    Pause,
    /// Executes a program again and again, as fast as it goes and at least so
    /// many times, until a line comes on its standard input. Then it says
    /// `executed <count>` and ends with 0. Of one that a signal ended it says
    /// `struck <number>`.
    Execs(u32),
    /// Exits on command, or by itself.
    App(End),
    /// Connects.
    Client(Client),
    /// Holds sockets open until it is terminated.
    Holding(Holding),
    /// Does as much harm as it can, and exits on command.
    Mischief(Mischief),
    /// Makes a mesh's rules, as an init container does, and ends.
    Capture(Capture),
    /// The in-container baseline: runs the app as its child, asks the sidecar
    /// on this port to quit when the app has ended, and ends with its code.
    Wrapper { port: u16, app: End },
    /// Serves.
    Sidecar(Sidecar),
    /// Runs the sidecar as its child and ends with its code, as a shell does
    /// that was started as `sh -c "...; sidecar"` and does not exec. It has no
    /// handlers for signals.
    Shell(Sidecar),
    /// What a sidecar started: see [`Child`].
    Proxy(Child),
}

/// How an app ends.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum End {
    /// At the line `exit <code>` on its standard input.
    OnCommand,
    /// After a while.
    After { life: Duration, code: u8 },
}

/// What a shim reports.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    /// The pod's UID.
    pub uid: String,
    /// The container's id; empty for the shim itself.
    pub id: String,
    /// What happened.
    pub what: What,
}

/// What happened to a container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum What {
    /// It has an init process, with this pid in the test's pid namespace.
    Created { pid: i32 },
    /// The runtime has started it: the kubelet says that it runs.
    Started,
    /// The init process is past its execve, and its program's first instruction
    /// was at this nanosecond of `CLOCK_MONOTONIC`.
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
