//! One node of a cluster: its data on disk, and its live parts.
//!
//! The first node has the control plane, and its state directory is the cluster's. The others have a containerd, a
//! kubelet and a kube-proxy, and a subdirectory of it, which is the only record of their existence.

use std::{
    fs::File,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use super::{Component, LIMIT, state::State};
use crate::{
    node::{Node, address::Link, cgroup::Layout, process::wait_until},
    programs::{Containerd, OciRuntime},
    progress::output,
};

/// The result of [`Member::status`].
#[derive(Debug, Clone)]
pub struct Status {
    /// Whether the node's namespaces exist.
    pub node: bool,
    pub layout: Option<Layout>,
    pub containerd: Option<Containerd>,
    pub runtime: Option<OciRuntime>,
    pub address: Option<Ipv4Addr>,
    pub components: Vec<(Component, bool)>,
}

#[derive(Debug)]
pub struct Member {
    pub(super) number: u8,
    pub(super) state: State,
    pub(super) node: Node,
}

impl Member {
    /// The node of a cluster with this number and this state directory. Does nothing yet.
    pub(super) fn new(cluster: &str, number: u8, dir: PathBuf) -> Result<Self> {
        Ok(Self {
            number,
            node: Node::new(cluster, number, &dir)?,
            state: State::new(dir),
        })
    }

    /// The name in Kubernetes.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// The address of its kubelet, once it is up.
    #[must_use]
    pub fn address(&self) -> Option<Ipv4Addr> {
        self.state.facts().map(|facts| facts.link.node())
    }

    /// The interface at the far end of its cable: on the machine, if this is the first node.
    #[must_use]
    pub fn interface(&self) -> String {
        Link::interface(&self.node.name)
    }

    /// Its file system from the machine; None if it is down.
    #[must_use]
    pub fn root(&self) -> Option<PathBuf> {
        self.node.root()
    }

    /// A command that runs inside, with `ctr` and `kubectl` ready for use.
    pub fn command(&self, program: &str) -> Result<Command> {
        self.node.command(program)
    }

    /// Runs a command inside and returns its standard output.
    pub fn run(&self, command: &[&str]) -> Result<String> {
        let (program, args) = command.split_first().context("no command")?;
        output(self.command(program)?.args(args))
    }

    /// Its processes when it is up.
    #[must_use]
    pub fn components(&self) -> &'static [Component] {
        match self.number {
            1 => &Component::ALL,
            _ => &Component::WORKER,
        }
    }

    #[must_use]
    pub fn status(&self) -> Status {
        let facts = self.state.facts();
        let components = self.components().iter();
        Status {
            node: self.node.init().is_some(),
            layout: facts.as_ref().map(|facts| facts.layout),
            containerd: facts.as_ref().map(|facts| facts.containerd),
            runtime: facts.as_ref().map(|facts| facts.runtime),
            address: facts.as_ref().map(|facts| facts.link.node()),
            components: components.map(|one| (*one, self.runs(*one))).collect(),
        }
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

    /// Imports an image into its containerd, from a docker-archive or an OCI archive.
    pub fn import_image(&self, archive: &Path) -> Result<()> {
        let file = File::open(archive).with_context(|| format!("open {}", archive.display()))?;
        self.import(&archive.display().to_string(), file.into())
    }

    /// Imports an image from an archive that it reads to its end.
    pub(super) fn import(&self, name: &str, archive: Stdio) -> Result<()> {
        let done = self
            .command("ctr")?
            .args(["images", "import", "-"])
            .stdin(archive)
            .stdout(Stdio::null())
            .output()
            .context("start ctr")?;
        if !done.status.success() {
            bail!(
                "import {name}: {}",
                String::from_utf8_lossy(&done.stderr).trim()
            );
        }
        // The kubelet sees an image only after containerd's CRI plugin has noticed and marked it.
        wait_until(LIMIT, "the kubelet to find the image", || {
            let found = self.images_with(&["labels.\"io.cri-containerd.image\"==managed"])?;
            Ok(self.images()?.iter().all(|image| found.contains(image)))
        })
    }

    /// The names of its containerd's images.
    pub(super) fn images(&self) -> Result<Vec<String>> {
        self.images_with(&[])
    }

    fn images_with(&self, filter: &[&str]) -> Result<Vec<String>> {
        let text = self.run(&[&["ctr", "images", "ls", "-q"], filter].concat())?;
        Ok(text.lines().map(str::to_owned).collect())
    }
}
