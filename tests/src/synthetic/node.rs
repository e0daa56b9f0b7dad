//! A node: a cgroup tree, a scratch directory and the kubelet's stand-in.

pub(super) mod bundles;
pub mod layout;
pub mod ledger;
pub mod manifest;

use std::io::PipeWriter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, json};

use crate::synthetic::bundles::Bundles;
use crate::synthetic::layout::{Driver, Runtime};
use crate::synthetic::ledger::Ledger;
use crate::synthetic::{Kubelet, kubelet, program};
use crate::wait::slower;

pub(crate) const NAME: &str = "synthetic-node";

const SECOND: Duration = Duration::from_secs(1);

static NODES: AtomicU32 = AtomicU32::new(0);
static CONFIGURATIONS: AtomicU64 = AtomicU64::new(0);

/// A node without Kubernetes. Its directories are removed on drop; drop its
/// pods first.
#[derive(Debug)]
pub struct Node {
    driver: Driver,
    runtime: Runtime,
    cgroup_root: PathBuf,
    scratch: PathBuf,
    events: PipeWriter,
    ledger: Arc<Ledger>,
    kubelet: Kubelet,
    bundles: Option<Bundles>,
}

impl Node {
    /// A node with the names of cgroupfs.
    pub fn new() -> Self {
        Self::with_driver(Driver::Cgroupfs)
    }

    /// A node with a runtime that has bundles as containerd does: directories
    /// with configuration, root and pid.
    ///
    /// # Panics
    ///
    /// If the machine does not permit it: see [`crate::privilege`].
    pub fn with_bundles() -> Self {
        let mut node = Self::new();
        node.bundles = Some(Bundles::lay(&node.scratch));
        node
    }

    /// A node with the cgroup names of this driver, and containerd.
    pub fn with_driver(driver: Driver) -> Self {
        Self::with_runtime(driver, Runtime::Containerd)
    }

    /// A node with the cgroup names of this driver and runtime.
    ///
    /// # Panics
    ///
    /// If the machine does not permit it: see [`crate::privilege`].
    pub fn with_runtime(driver: Driver, runtime: Runtime) -> Self {
        layout::sweep();
        let name = layout::name(&NODES.fetch_add(1, Ordering::Relaxed).to_string());
        let mount = layout::cgroup2_mount().expect("cgroup2 is mounted");
        let cgroup_root = mount.join(&name);
        let scratch = layout::scratch_parent().join(&name);
        // From here on a panic is safe: the next run removes the leftovers.
        std::fs::create_dir(&cgroup_root).expect("root may make cgroups");
        for parent in driver.parents(&cgroup_root) {
            std::fs::create_dir(parent).expect("root may make cgroups");
        }
        for directory in ["run", "config", "pods", "bundles"] {
            std::fs::create_dir_all(scratch.join(directory)).expect("/tmp is writable");
        }
        std::fs::write(scratch.join("token"), kubelet::TOKEN).expect("/tmp is writable");
        program::lay_root(&scratch.join("root"));
        let ledger = Arc::new(Ledger::default());
        let (reader, events) = std::io::pipe().expect("descriptors are left");
        let follower = Arc::clone(&ledger);
        // The thread ends when the node and all shims have closed the pipe.
        std::thread::spawn(move || follower.follow(reader));
        let node = Self {
            driver,
            runtime,
            cgroup_root,
            scratch,
            events,
            kubelet: Kubelet::serve(Arc::clone(&ledger)),
            ledger,
            bundles: None,
        };
        if slower(SECOND) > SECOND {
            node.configure(&in_slow_motion());
        }
        node
    }

    /// The value of `--cgroup-root`.
    pub fn cgroup_root(&self) -> &Path {
        &self.cgroup_root
    }

    /// The value of `--run-dir`.
    pub fn run_dir(&self) -> PathBuf {
        self.scratch.join("run")
    }

    /// The value of `--config`. The file does not exist at first.
    pub fn config_file(&self) -> PathBuf {
        self.scratch.join("config/config.yaml")
    }

    /// Removes the agent's configuration the way the kubelet does when an optional ConfigMap was deleted.
    pub fn delete_configuration(&self) {
        let mount = self.scratch.join("config");
        for name in ["config.yaml", "..data"] {
            std::fs::remove_file(mount.join(name)).expect("it was configured");
        }
    }

    /// A sidecar that gets no processor for a second or two has not failed. Called before the agent starts.
    pub fn allow_slow_sidecars(&self) {
        // A far slower machine has longer timeouts already.
        if slower(SECOND) == SECOND {
            self.configure("ladder: {attempt: 5s, settle: 5s}\n");
        }
    }

    /// Writes the agent's configuration the way the kubelet updates a
    /// ConfigMap: a new directory, and a replaced link.
    pub fn configure(&self, text: &str) {
        let mount = self.scratch.join("config");
        let number = CONFIGURATIONS.fetch_add(1, Ordering::Relaxed);
        let data = format!("..data_{number}");
        std::fs::create_dir(mount.join(&data)).expect("/tmp is writable");
        std::fs::write(mount.join(&data).join("config.yaml"), text).expect("/tmp is writable");
        let link = mount.join("..data_tmp");
        std::os::unix::fs::symlink(&data, &link).expect("/tmp is writable");
        std::fs::rename(&link, mount.join("..data")).expect("/tmp is writable");
        if !self.config_file().is_symlink() {
            std::os::unix::fs::symlink("..data/config.yaml", self.config_file())
                .expect("/tmp is writable");
        }
    }

    /// The log in which the CNI plugin explains why a pod starts without a hold.
    pub fn plugin_log(&self) -> PathBuf {
        self.scratch.join("cni.log")
    }

    /// The value of `--bundle-dir`; only with [`Node::with_bundles`].
    pub fn bundle_dir(&self) -> Option<PathBuf> {
        self.bundles.as_ref().map(|bundles| bundles.places().tasks)
    }

    /// The program of containers that have it on a volume; only with [`Node::with_bundles`].
    pub fn volume_program(&self) -> Option<PathBuf> {
        let places = self.bundles.as_ref().map(Bundles::places);
        places.map(|places| places.volume.join("pod"))
    }

    /// The value of `--kubelet-token`.
    pub fn token_file(&self) -> PathBuf {
        self.scratch.join("token")
    }

    pub const fn kubelet(&self) -> &Kubelet {
        &self.kubelet
    }

    /// The cgroup driver of this node.
    pub const fn driver(&self) -> Driver {
        self.driver
    }

    /// The container runtime of this node.
    pub const fn runtime(&self) -> Runtime {
        self.runtime
    }

    /// Replaces the Node's annotations, as an agent without API server reads
    /// them.
    pub fn annotate(&self, annotations: &[(&str, &str)]) {
        let object: Map<_, _> = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        let file = self.run_dir().join("node-annotations.json");
        let text = serde_json::Value::Object(object).to_string();
        std::fs::write(file, text).expect("/tmp is writable");
    }

    pub(crate) const fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    pub(crate) const fn bundles(&self) -> Option<&Bundles> {
        self.bundles.as_ref()
    }

    /// A command that runs where the runtime runs.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let bundles = self.bundles.as_ref();
        bundles.map_or_else(|| Command::new(program), |bundles| bundles.inside(program))
    }

    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    pub(crate) fn event_pipe(&self) -> PipeWriter {
        self.events.try_clone().expect("descriptors are left")
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        layout::remove_cgroup(&self.cgroup_root);
        // The next run removes what is left.
        drop(std::fs::remove_dir_all(&self.scratch));
    }
}

/// The configuration of an agent on a far slower machine: the default timeouts, scaled.
/// A sidecar that responds in time on another machine must not be too late here.
fn in_slow_motion() -> String {
    let seconds = |elsewhere| format!("{}s", (slower(SECOND) * elsewhere).as_secs());
    format!(
        "defaults: {{holdDeadline: {}}}\nladder: {{attempt: {}, settle: {}, settleSignal: {}, listen: {}}}\n",
        seconds(30),
        seconds(1),
        seconds(2),
        seconds(30),
        seconds(10)
    )
}
