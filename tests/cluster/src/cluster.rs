//! One cluster: created, inspected, disturbed and removed by its name.
//!
//! All its data is in its state directory, so any program may continue after another one stopped or was
//! killed: [`Cluster::up`] creates what is missing and starts what has died, [`Cluster::down`] removes everything.
//!
//! It has one node, or more if [`Config::nodes`] requests them; [`Cluster::members`] lists them all. A request to the
//! cluster without a node goes to the first.

mod command_line;
mod component;
mod config;
mod control;
pub(crate) mod istio;
mod kubectl;
mod member;
mod pki;
mod settings;
mod start;
mod state;
mod worker;

use std::{
    env,
    fmt::Display,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use self::state::Facts;
pub use self::{
    component::Component,
    config::Config,
    member::{Member, Status},
    settings::Network,
};
use crate::{
    image::catalog,
    node::{
        self, Node,
        address::Link,
        cable::{Cable, End},
    },
    programs::{self, Containerd, Kubernetes, OciRuntime, Programs},
    progress::Progress,
};

/// Far more than a loaded machine needs for one step.
const LIMIT: Duration = Duration::from_secs(300);
const NAME_MAX: usize = 20;

#[derive(Debug)]
pub struct Cluster {
    config: Config,
    first: Member,
}

impl Cluster {
    /// The cluster of this name, with the settings of the environment. Does nothing yet.
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
        ensure!(
            config
                .nodes
                .is_none_or(|nodes| (1..=node::MOST).contains(&nodes)),
            "a cluster has 1 to {} nodes",
            node::MOST
        );
        Ok(Self {
            first: Member::new(name, 1, dir)?,
            config,
        })
    }

    /// Creates the cluster, or its missing parts. Returns when pods can run and reach the API server.
    pub fn up(&self) -> Result<()> {
        require_root()?;
        let progress = Progress::new();
        let programs = Programs::ready(self.config.sidecars, self.containerd(), self.kubernetes())?;
        let archives = catalog::archives(&programs)?;
        progress.step("programs and images are in the cache");

        let _lock = self.first.state.lock()?;
        let facts = self.facts()?;
        let mut workers = self.workers()?;
        if self.first.node.init().is_none() {
            // The cables of the other nodes end in the first node.
            for worker in &workers {
                worker.node.remove()?;
            }
            let cable = Cable {
                link: facts.link,
                end: End::Machine,
            };
            create(&self.first, &facts, &cable, &programs, &progress)?;
        }
        self.write_settings(&self.first, &programs, &facts)?;
        self.start_everything(&facts, &archives, &progress)?;
        for number in (2..=self.config.nodes.unwrap_or(1)).skip(workers.len()) {
            workers.push(self.worker(number)?);
        }
        for worker in &workers {
            self.up_worker(worker, &facts, &programs, &archives, &progress)?;
        }
        match &programs.istio {
            Some(programs) => istio::install(self, &programs.manifest, &progress),
            None => Ok(()),
        }
    }

    /// Removes the cluster and every trace of it, in any state.
    pub fn down(&self) -> Result<()> {
        require_root()?;
        let progress = Progress::new();
        let state = &self.first.state;
        let _lock = state.dir().exists().then(|| state.lock()).transpose()?;
        for number in 2..=node::MOST {
            // Their names are known, even without any other record of them.
            self.worker(number)?.node.remove()?;
        }
        self.first.node.remove()?;
        progress.step("processes, interfaces and cgroups are gone");
        state.remove()?;
        progress.step(&format!("{} is gone", state.dir().display()));
        Ok(())
    }

    #[must_use]
    pub fn status(&self) -> Status {
        self.first.status()
    }

    /// A command that runs inside the node, with `ctr` and `kubectl` ready for use.
    pub fn node_command(&self, program: &str) -> Result<Command> {
        self.first.command(program)
    }

    /// Runs a command inside the node and returns its standard output.
    pub fn in_node(&self, command: &[&str]) -> Result<String> {
        self.first.run(command)
    }

    /// Imports an image into the containerd of every node, from a docker-archive or an OCI archive. Nodes that join later
    /// get it too.
    pub fn import_image(&self, archive: &Path) -> Result<()> {
        let mut members = self.members()?.into_iter();
        members.try_for_each(|member| member.import_image(archive))
    }

    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.first.state.kubeconfig("admin")
    }

    #[must_use]
    pub fn node_name(&self) -> &str {
        self.first.name()
    }

    /// The node's address once the cluster is up, for the API server and the kubelet.
    #[must_use]
    pub fn address(&self) -> Option<Ipv4Addr> {
        self.first.address()
    }

    #[must_use]
    pub fn state_dir(&self) -> &Path {
        self.first.state.dir()
    }

    #[must_use]
    pub fn log_dir(&self) -> PathBuf {
        self.first.log_dir()
    }

    #[must_use]
    pub fn log_file(&self, component: Component) -> PathBuf {
        self.first.log_file(component)
    }

    /// The requests of service accounts outside of the system's namespaces to the API server: one audit event a line.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.first.state.audit_log()
    }

    /// The node's file system from the machine; None if the node is down.
    #[must_use]
    pub fn node_root(&self) -> Option<PathBuf> {
        self.first.root()
    }

    /// The containerd that the cluster has, or will have.
    fn containerd(&self) -> Containerd {
        let has = self.first.state.facts().map(|facts| facts.containerd);
        has.or(self.config.containerd).unwrap_or_default()
    }

    /// The runtime that the cluster has, or will have.
    fn runtime(&self) -> OciRuntime {
        let has = self.first.state.facts().map(|facts| facts.runtime);
        has.or(self.config.runtime).unwrap_or_default()
    }

    /// The Kubernetes that the cluster has, or will have.
    #[must_use]
    pub fn kubernetes(&self) -> Kubernetes {
        let has = self.first.state.facts().map(|facts| facts.kubernetes);
        has.or(self.config.kubernetes).unwrap_or_default()
    }

    /// The choices when the cluster was created, or the current ones.
    fn facts(&self) -> Result<Facts> {
        if let Some(facts) = self.first.state.facts() {
            self.keeps("cgroup layout", &facts.layout, self.config.cgroups)?;
            self.keeps("Kubernetes", &facts.kubernetes, self.config.kubernetes)?;
            self.keeps("containerd", &facts.containerd, self.config.containerd)?;
            self.keeps("runtime", &facts.runtime, self.config.runtime)?;
            return Ok(facts);
        }
        let link = Link::choose(self.node_name(), &Node::routes(None)?)?;
        let facts = Facts {
            link,
            layout: (self.config.cgroups).unwrap_or_else(|| self.first.node.default_layout()),
            kubernetes: self.kubernetes(),
            containerd: self.containerd(),
            runtime: self.runtime(),
        };
        self.first.state.write_facts(&facts)?;
        Ok(facts)
    }

    /// Fails if the cluster has something other than what is requested now.
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

/// Creates the first node.
fn create(
    member: &Member,
    facts: &Facts,
    cable: &Cable<'_>,
    programs: &Programs,
    progress: &Progress,
) -> Result<()> {
    member.state.create_directories(&programs::cni_plugins()?)?;
    let pause = &programs.own.pause;
    member.node.create(facts.layout, cable, pause)?;
    progress.step(&format!(
        "node {} has its namespaces, cgroup layout {}",
        member.name(),
        facts.layout
    ));
    Ok(())
}

fn require_root() -> Result<()> {
    ensure!(cfg!(target_os = "linux"), "the cluster needs Linux");
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the cluster needs root: it makes namespaces, mounts and cgroups"
    );
    Ok(())
}
