//! What a runtime exposes of its containers on a node, and who can read it.
//!
//! containerd has a directory for each container, and mounts the container's
//! root in it, in the node's mount namespace. So that nothing is ever mounted
//! on the machine, the node gets a mount namespace of its own. The shims are in
//! it, as the runtime is; the agent is in another that receives its mounts, as
//! a pod with `mountPropagation: HostToContainer` does
//! ([mount_namespaces(7)](https://man7.org/linux/man-pages/man7/mount_namespaces.7.html)).
//!
//! The namespace lives as long as the test process has its descriptor, or
//! a process runs in it. All its mounts end with it.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::synthetic::program;

/// containerd's tasks of Kubernetes, below its state directory.
const TASKS: &str = "io.containerd.runtime.v2.task/k8s.io";

#[derive(Debug)]
pub(crate) struct Bundles {
    namespace: File,
    places: Places,
}

/// The directories of bundles.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) tasks: PathBuf,
    /// The lower layer of all roots.
    pub(crate) lower: PathBuf,
    /// The upper layer of each root.
    pub(crate) snapshots: PathBuf,
    /// A volume with the test program.
    pub(crate) volume: PathBuf,
}

impl Bundles {
    /// Creates the namespace and the directories.
    ///
    /// # Panics
    ///
    /// If the machine does not permit it: see [`crate::privilege`].
    pub(crate) fn lay(scratch: &Path) -> Self {
        let state = scratch.join("containerd");
        let places = Places {
            tasks: state.join(TASKS),
            lower: scratch.join("lower"),
            snapshots: scratch.join("snapshots"),
            volume: scratch.join("volume"),
        };
        for directory in [&places.tasks, &places.snapshots, &places.volume] {
            std::fs::create_dir_all(directory).expect("/tmp is writable");
        }
        program::lay_root(&places.lower);
        program::lay_program(&places.lower);
        program::place(&places.volume.join("pod"));
        Self {
            namespace: namespace(&state),
            places,
        }
    }

    pub(crate) fn places(&self) -> Places {
        self.places.clone()
    }

    /// A command that runs where the runtime runs.
    pub(crate) fn inside(&self, program: &Path) -> Command {
        self.enter("inside", program)
    }

    /// A command that runs as in a pod that receives the node's mounts.
    pub(crate) fn beside(&self, program: &Path) -> Command {
        self.enter("beside", program)
    }

    fn enter(&self, role: &str, program: &Path) -> Command {
        let (process, number) = (std::process::id(), self.namespace.as_raw_fd());
        let path = format!("/proc/{process}/fd/{number}");
        let json = serde_json::to_string(&path).expect("plain data");
        let mut command = Command::new(program::path());
        command.arg(role).arg(json).arg(program);
        command
    }
}

/// A new mount namespace with the mounts below this directory shared
/// to namespaces that receive them.
fn namespace(state: &Path) -> File {
    let json = serde_json::to_string(state).expect("paths are UTF-8");
    let mut maker = Command::new(program::path())
        .arg("mounts")
        .arg(json)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut ready = [0];
    let output = maker.stdout.as_mut().expect("piped above");
    output.read_exact(&mut ready).expect("root may mount");
    let path = format!("/proc/{}/ns/mnt", maker.id());
    let namespace = File::open(path).expect("it waits for us");
    drop(maker.stdin.take());
    maker.wait().expect("it is our child");
    namespace
}
