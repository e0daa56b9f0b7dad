//! A simulated machine of the cluster: namespaces, cgroups, one cable to the outside.
//!
//! [`Node`] creates and removes it and runs programs inside. Its pid 1 is the pause program: when that exits, the kernel
//! ends every process, mount and network interface of the node with it. Every process of a node is in the node's
//! cgroups, which are found by name, so a node can be removed completely even if nothing else is known of it any more.
//! Needs cgroup namespaces (Linux 4.6) and overlayfs.

pub(crate) mod address;
pub(crate) mod cable;
pub(crate) mod cgroup;
pub(crate) mod process;

use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use nix::{sys::signal::Signal, unistd::Pid};

use self::{
    address::Route,
    cable::Cable,
    cgroup::{Layout, NodeCgroups},
    process::{Identity, wait_until},
};
use crate::progress::{output, tail};

/// Joins the node's cgroups and becomes the given program. Arguments: the `cgroup.procs` files, `--`, the program.
const JOIN: &str = include_str!("node/join.sh");
/// Gives the node its own view of the file system; runs inside.
const MOUNTS: &str = include_str!("node/mounts.sh");
/// Makes a second start of the kubelet possible if cgroup v2 has no controllers; runs inside.
const QOS: &str = include_str!("node/qos.sh");

/// The address range of the pods of all nodes, and that of services. Both exist inside nodes only.
pub(crate) const CLUSTER_PODS: &str = "10.88.0.0/13";
pub(crate) const SERVICE_RANGE: &str = "10.96.0.0/16";
pub(crate) const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// The maximum number of nodes: the number of ranges in [`CLUSTER_PODS`].
pub(crate) const MOST: u8 = 8;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Directories that differ in the node: a state directory below them would not exist inside.
const COVERED: [&str; 7] = [
    "/etc", "/opt", "/proc", "/run", "/sys", "/var/lib", "/var/log",
];

/// Far more than a loaded machine needs to start the node's pid 1.
const INIT_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Node {
    /// The name in Kubernetes.
    pub(crate) name: String,
    state: PathBuf,
    cgroups: NodeCgroups,
}

impl Node {
    /// The node of a cluster with this number; the first is 1.
    pub(crate) fn new(cluster: &str, number: u8, state: &Path) -> Result<Self> {
        let covered = COVERED.iter().find(|covered| state.starts_with(covered));
        ensure!(
            covered.is_none(),
            "the state directory {} is below {}: choose another",
            state.display(),
            covered.unwrap_or(&"")
        );
        let name = match number {
            1 => format!("usher-{cluster}"),
            // No cluster has a dot in its name, so this is never the first node of another one.
            _ => format!("usher-{cluster}.{number}"),
        };
        let cgroups = NodeCgroups::find(&name)?;
        Ok(Self {
            name,
            state: state.to_owned(),
            cgroups,
        })
    }

    pub(crate) fn default_layout(&self) -> Layout {
        self.cgroups.default_layout()
    }

    /// Pid 1 of the node, from the machine, if it runs and the node was created completely.
    pub(crate) fn init(&self) -> Option<Identity> {
        Identity::read(&self.state.join("init.pid")).filter(|init| init.lives(Path::new("/proc")))
    }

    /// The file system from the view of the node.
    pub(crate) fn root(&self) -> Option<PathBuf> {
        self.init()
            .map(|init| PathBuf::from(format!("/proc/{}/root", init.pid)))
    }

    /// Creates a node. Removes the rest of an interrupted attempt first.
    pub(crate) fn create(&self, layout: Layout, cable: &Cable<'_>, pause: &Path) -> Result<()> {
        self.remove()?;
        self.cgroups.create(layout)?;
        let init = self.start_init(pause)?;
        self.cgroups.settle()?;
        self.enter(&init, "sh")
            .args(["-c", MOUNTS])
            .env("STATE", &self.state)
            .env("NODE", &self.name)
            .env("CGROUP_MOUNTS", self.cgroups.mounts(layout))
            .stdin(Stdio::null())
            .output()
            .context("start the node's mounts")
            .and_then(|done| {
                ensure!(
                    done.status.success(),
                    "the node's mounts: {}",
                    String::from_utf8_lossy(&done.stderr).trim()
                );
                Ok(())
            })?;
        self.connect(&init, cable)?;
        // Last: this file marks the node as created.
        init.write(&self.state.join("init.pid"))
    }

    /// Removes everything of a node with this name: processes, link, cgroups.
    pub(crate) fn remove(&self) -> Result<()> {
        self.cgroups.kill()?;
        let init_file = self.state.join("init.pid");
        if init_file.exists() {
            fs::remove_file(&init_file)
                .with_context(|| format!("remove {}", init_file.display()))?;
        }
        self.disconnect()?;
        self.cgroups.remove()
    }

    /// A command that will run inside the node: its namespaces, its cgroups, its search path.
    pub(crate) fn command(&self, program: &str) -> Result<Command> {
        let init = self
            .init()
            .with_context(|| format!("node {} is not up", self.name))?;
        Ok(self.enter(&init, program))
    }

    fn enter(&self, init: &Identity, program: &str) -> Command {
        let mut command = self.joined();
        let target = init.pid.to_string();
        command
            .args([
                "nsenter", "--target", &target, "--mount", "--net", "--pid", "--uts", "--ipc",
                "--cgroup", "--wd=/", "--",
            ])
            .arg(program)
            .env(
                "PATH",
                format!("{}:{PATH}", self.state.join("bin").display()),
            )
            .env("KUBECONFIG", self.state.join("kube/admin.conf"))
            .env("CONTAINERD_ADDRESS", "/run/containerd/containerd.sock")
            .env("CONTAINERD_NAMESPACE", "k8s.io");
        command
    }

    /// A shell that joins the node's cgroups before it executes the remaining arguments.
    fn joined(&self) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", JOIN, "join"])
            .args(self.cgroups.entrances())
            .arg("--");
        command
    }

    fn start_init(&self, pause: &Path) -> Result<Identity> {
        let log_path = self.state.join("log/init.log");
        let log = fs::File::create(&log_path)
            .with_context(|| format!("create {}", log_path.display()))?;
        let mut unshare = self
            .joined()
            .args([
                "setsid",
                "unshare",
                "--mount",
                "--net",
                "--pid",
                "--uts",
                "--ipc",
                "--cgroup",
                "--fork",
                "--kill-child",
                "--",
            ])
            .arg(pause)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("start the node's pid 1")?;
        let parent = unshare.id();
        let children = format!("/proc/{parent}/task/{parent}/children");
        let mut init = None;
        wait_until(INIT_LIMIT, "the node's pid 1", || {
            if let Some(status) = unshare.try_wait()? {
                anyhow::bail!("unshare ended ({status}): {}", tail(&log_path));
            }
            init = fs::read_to_string(&children)
                .ok()
                .and_then(|pids| pids.trim().parse().ok());
            // The child exists before it has become the pause program.
            Ok(init.is_some_and(|pid: i32| {
                program_of(pid).as_deref() == pause.file_name().map(Path::new)
            }))
        })?;
        // The process that called us may outlive the node.
        thread::spawn(move || unshare.wait());
        Identity::of(Path::new("/proc"), init.unwrap_or_default())
            .context("the node's pid 1 ended at once")
    }

    /// Must be called before every start of the kubelet.
    pub(crate) fn prepare_kubelet(&self, layout: Layout) -> Result<()> {
        if layout == Layout::V2 && !self.cgroups.v2_has_controllers() {
            output(
                self.command("sh")?
                    .args(["-c", QOS])
                    .env("STATE", &self.state),
            )
            .context("prepare the kubelet's cgroups")?;
        }
        Ok(())
    }

    /// Whether there is a listener on a TCP port inside the node.
    pub(crate) fn listens(&self, port: u16) -> bool {
        let Some(init) = self.init() else {
            return false;
        };
        ["tcp", "tcp6"].iter().any(|table| {
            let text =
                fs::read_to_string(format!("/proc/{}/net/{table}", init.pid)).unwrap_or_default();
            address::listening(&text, port)
        })
    }

    /// The IPv4 routes of this machine, and those of a node if it is up.
    pub(crate) fn routes(inside: Option<&Self>) -> Result<Vec<Route>> {
        let mut routes = Vec::new();
        let node = inside.and_then(Self::init);
        for process in
            std::iter::once("self".to_owned()).chain(node.map(|init| init.pid.to_string()))
        {
            let file = format!("/proc/{process}/net/route");
            let text = fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
            routes.extend(address::routes(&text));
        }
        Ok(routes)
    }
}

/// The address range of the pods of one node.
pub(crate) fn pod_range(number: u8) -> String {
    format!("10.{}.0.0/16", 87 + u16::from(number))
}

/// The file name of the program of a process.
fn program_of(pid: i32) -> Option<PathBuf> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    program.file_name().map(PathBuf::from)
}

/// Sends a signal; an exited process is not an error.
fn signal(pid: i32, signal: Signal) -> Result<()> {
    match nix::sys::signal::kill(Pid::from_raw(pid), signal) {
        Ok(()) | Err(nix::Error::ESRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("send {signal} to process {pid}")),
    }
}
