//! One cluster: made, looked at, disturbed and ended by its name.
//!
//! Everything it knows is in its state directory, so any program may continue where another one stopped or was
//! killed: [`Cluster::up`] makes what is missing and starts what has died, [`Cluster::down`] removes everything.

mod component;
mod config;
mod control;
mod kubectl;
mod pki;
mod settings;
mod start;
mod state;

use std::{
    env,
    fmt::Display,
    fs::File,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use self::state::{Facts, State};
pub use self::{component::Component, config::Config, settings::Network};
use crate::{
    image::catalog,
    mesh,
    node::{Node, address::Link, cgroup::Layout, process::wait_until},
    programs::{self, Containerd, Programs},
    progress::{Progress, output},
};

const LIMIT: Duration = Duration::from_secs(120);
const NAME_MAX: usize = 20;

/// What [`Cluster::status`] found.
#[derive(Debug, Clone)]
pub struct Status {
    /// Whether the node's namespaces are there.
    pub node: bool,
    pub layout: Option<Layout>,
    pub containerd: Option<Containerd>,
    pub address: Option<Ipv4Addr>,
    pub components: Vec<(Component, bool)>,
}

#[derive(Debug)]
pub struct Cluster {
    config: Config,
    state: State,
    node: Node,
}

impl Cluster {
    /// The cluster of this name, with what the environment says. Nothing happens yet.
    pub fn new(name: &str) -> Result<Self> {
        Self::with(Config::from_env(name)?)
    }

    pub fn with(config: Config) -> Result<Self> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let name = config.name.as_str();
        ensure!(
            !name.is_empty()
                && name.len() <= NAME_MAX
                && name.bytes().all(allowed)
                && !name.starts_with('-')
                && !name.ends_with('-'),
            "cluster name {name:?}: 1 to {NAME_MAX} lower-case letters, digits and inner dashes"
        );
        let dir = config
            .state_dir
            .clone()
            .unwrap_or_else(|| env::temp_dir().join(format!("usher-cluster-{name}")));
        let dir = std::path::absolute(&dir)
            .with_context(|| format!("state directory {}", dir.display()))?;
        let node = Node::new(name, &dir)?;
        Ok(Self {
            state: State::new(dir),
            node,
            config,
        })
    }

    /// Makes the cluster, or what is missing of it. Returns when pods can run and reach the API server.
    pub fn up(&self) -> Result<()> {
        require_root()?;
        let progress = Progress::new();
        programs::ensure_packages()?;
        let programs = Programs::ready(self.config.sidecars, self.containerd())?;
        let archives = catalog::archives(&programs)?;
        progress.step("programs and images are in the cache");

        let _lock = self.state.lock()?;
        let facts = self.facts()?;
        if self.node.init().is_none() {
            self.state.create_directories(&programs::cni_plugins()?)?;
            self.node
                .create(facts.layout, &facts.link, &programs.own.pause)?;
            progress.step(&format!(
                "node {} has its namespaces, cgroup layout {}",
                self.node.name, facts.layout
            ));
        }
        self.write_settings(&programs, &facts)?;
        self.start_everything(&facts, &archives, &progress)?;
        match &programs.istio {
            Some(istio) => mesh::install(self, &istio.manifest, &progress),
            None => Ok(()),
        }
    }

    /// Ends the cluster and removes every trace of it, whatever state it is in.
    pub fn down(&self) -> Result<()> {
        require_root()?;
        let progress = Progress::new();
        let _lock = self
            .state
            .dir()
            .exists()
            .then(|| self.state.lock())
            .transpose()?;
        self.node.remove()?;
        progress.step("processes, interfaces and cgroups are gone");
        self.state.remove()?;
        progress.step(&format!("{} is gone", self.state.dir().display()));
        Ok(())
    }

    #[must_use]
    pub fn status(&self) -> Status {
        let facts = self.state.facts();
        Status {
            node: self.node.init().is_some(),
            layout: facts.as_ref().map(|facts| facts.layout),
            containerd: facts.as_ref().map(|facts| facts.containerd),
            address: facts.as_ref().map(|facts| facts.link.node()),
            components: Component::ALL
                .map(|component| (component, self.runs(component)))
                .to_vec(),
        }
    }

    /// A command that runs inside the node when it is started, with `ctr` and `kubectl` ready for use.
    pub fn node_command(&self, program: &str) -> Result<Command> {
        self.node.command(program)
    }

    /// Runs a command inside the node and returns what it wrote to stdout.
    pub fn in_node(&self, command: &[&str]) -> Result<String> {
        let (program, args) = command.split_first().context("no command")?;
        output(self.node_command(program)?.args(args))
    }

    /// Gives the node's containerd an image from a docker-archive or an OCI archive.
    pub fn import_image(&self, archive: &Path) -> Result<()> {
        let file = File::open(archive).with_context(|| format!("open {}", archive.display()))?;
        let done = self
            .node_command("ctr")?
            .args(["images", "import", "-"])
            .stdin(file)
            .stdout(Stdio::null())
            .output()
            .context("start ctr")?;
        if !done.status.success() {
            bail!(
                "import {}: {}",
                archive.display(),
                String::from_utf8_lossy(&done.stderr).trim()
            );
        }
        // The kubelet sees an image only after containerd's CRI part has noticed and marked it.
        let listed =
            |filter: &[&str]| self.in_node(&[&["ctr", "images", "ls", "-q"], filter].concat());
        wait_until(LIMIT, "the kubelet's sight of the image", || {
            let seen = listed(&["labels.\"io.cri-containerd.image\"==managed"])?;
            Ok(listed(&[])?
                .lines()
                .all(|image| seen.lines().any(|other| other == image)))
        })
    }

    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.kubeconfig("admin")
    }

    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.node.name
    }

    /// Where the node's address is, once the cluster is up: the API server and the kubelet.
    #[must_use]
    pub fn address(&self) -> Option<Ipv4Addr> {
        self.state.facts().map(|facts| facts.link.node())
    }

    #[must_use]
    pub fn state_dir(&self) -> &Path {
        self.state.dir()
    }

    /// One `<component>.log` each.
    #[must_use]
    pub fn log_dir(&self) -> PathBuf {
        self.state.dir().join("log")
    }

    #[must_use]
    pub fn log_file(&self, component: Component) -> PathBuf {
        self.log_dir().join(format!("{component}.log"))
    }

    /// The node's file system as seen from outside; none when it is down.
    #[must_use]
    pub fn node_root(&self) -> Option<PathBuf> {
        self.node.root()
    }

    /// The one that the cluster has, or will have.
    fn containerd(&self) -> Containerd {
        let has = self.state.facts().map(|facts| facts.containerd);
        has.or(self.config.containerd).unwrap_or_default()
    }

    /// What was chosen when the cluster was first made, or is chosen now.
    fn facts(&self) -> Result<Facts> {
        if let Some(facts) = self.state.facts() {
            self.keeps("cgroup layout", &facts.layout, self.config.cgroups)?;
            self.keeps("containerd", &facts.containerd, self.config.containerd)?;
            return Ok(facts);
        }
        let link = Link::choose(&self.node.name, &Node::routes()?)?;
        let facts = Facts {
            link,
            layout: (self.config.cgroups).unwrap_or_else(|| self.node.default_layout()),
            containerd: self.containerd(),
        };
        self.state.write_facts(&facts)?;
        Ok(facts)
    }

    /// Whether what the cluster has is what is wanted now, if anything is.
    fn keeps<T: PartialEq + Display>(&self, what: &str, has: &T, wanted: Option<T>) -> Result<()> {
        match wanted.filter(|wanted| wanted != has) {
            None => Ok(()),
            Some(wanted) => bail!(
                "cluster {} has {what} {has}; end it before it can have {wanted}",
                self.config.name
            ),
        }
    }
}

fn require_root() -> Result<()> {
    ensure!(cfg!(target_os = "linux"), "the cluster needs Linux");
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the cluster needs root: it makes namespaces, mounts and cgroups"
    );
    Ok(())
}
