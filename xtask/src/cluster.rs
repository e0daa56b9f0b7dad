//! `cargo xtask cluster`: the cluster of the tests, for manual use, and cluster functions for other tasks.
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::{os::unix::process::CommandExt, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use usher_cluster::{
    Cluster, Config, Layout, Member,
    programs::{Containerd, Kubernetes, OciRuntime, Profile, Sidecars},
};

use crate::{
    release::{chart::MANIFEST, image},
    workspace::root,
};

/// The variable with the cluster's name for tests and benchmarks.
pub(crate) const VARIABLE: &str = "USHER_TEST_CLUSTER";
const AGENT_NAMESPACE: &str = "usher";
const AGENT: &str = "daemonset/usher";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the cluster; clusters of different names are independent
    #[arg(long, global = true, default_value = "default")]
    name: String,
    /// Cgroup layout of the nodes: hybrid or v2 [default: the machine's]
    #[arg(long, global = true)]
    cgroups: Option<Layout>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start the cluster, or its missing parts
    Up {
        /// Sidecars to build from source, once: none, mesh (images of Istio's proxy and Envoy, one minute), istio (Istio
        /// itself, installed, five more minutes), all (images of Dapr and the Cloud SQL proxy as well, four more minutes)
        #[arg(long, default_value = "mesh")]
        sidecars: Sidecars,
        /// Version of Kubernetes: 1.36 or 1.32 (each built from source, once, in 6 minutes) [default: 1.36]
        #[arg(long)]
        kubernetes: Option<Kubernetes>,
        /// Version of containerd: 1.6 (Debian's) or 2 (built from source, once, in 90 seconds) [default: 1.6]
        #[arg(long)]
        containerd: Option<Containerd>,
        /// Program that creates the containers, from Debian: runc or crun [default: runc]
        #[arg(long)]
        runtime: Option<OciRuntime>,
        /// Minimum number of nodes, up to 8; the first has the control plane [default: the current number, or 1]
        #[arg(long)]
        nodes: Option<u8>,
    },
    /// Stop the cluster and remove every trace of it
    Down,
    /// Show the components
    Status,
    /// Run kubectl as administrator
    Kubectl {
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run a command inside a node
    In {
        /// Number of the node; the first has the control plane
        #[arg(long, default_value_t = 1)]
        node: u8,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Import an image archive on every node
    Import { archive: PathBuf },
}

pub(crate) fn run(args: Args) -> Result<()> {
    let mut config = Config::from_env(&args.name)?;
    config.cgroups = args.cgroups.or(config.cgroups);
    if let Action::Up {
        sidecars,
        kubernetes,
        containerd,
        runtime,
        nodes,
    } = args.action
    {
        config.nodes = nodes;
        config.sidecars = sidecars;
        config.kubernetes = kubernetes.or(config.kubernetes);
        config.containerd = containerd.or(config.containerd);
        config.runtime = runtime;
    }
    let cluster = Cluster::with(config)?;
    match args.action {
        Action::Up { .. } => cluster.up(),
        Action::Down => cluster.down(),
        Action::Status => status(&cluster),
        Action::Kubectl { args } => become_program(cluster.kubectl_command().args(args)),
        Action::In { node, command } => {
            let (program, args) = command.split_first().context("no command")?;
            become_program(cluster.member(node)?.command(program)?.args(args))
        }
        Action::Import { archive } => cluster.import_image(&archive),
    }
}

fn status(cluster: &Cluster) -> Result<()> {
    println!("{:<24} {}", "KUBECONFIG", cluster.kubeconfig().display());
    for member in cluster.members()? {
        println!();
        node_status(&member);
    }
    Ok(())
}

fn node_status(member: &Member) {
    let status = member.status();
    let word = |alive: bool| if alive { "up" } else { "down" };
    println!("{:<24} {}", member.name(), word(status.node));
    if let (Some(layout), Some(address)) = (status.layout, status.address) {
        println!("{:<24} {layout}\n{:<24} {address}", "cgroups", "address");
        println!("{:<24} {}", "logs", member.log_dir().display());
    }
    if let Some(containerd) = status.containerd {
        println!("{:<24} {containerd}", "containerd version");
    }
    if let Some(runtime) = status.runtime {
        println!("{:<24} {runtime}", "runtime");
    }
    for (component, alive) in status.components {
        println!("{:<24} {}", component.name(), word(alive));
    }
}

/// Creates the cluster with the agent's image. Removes an earlier cluster of this name, which may be in any state.
pub(crate) fn recreate(config: Config) -> Result<Cluster> {
    let archive = image::agent(Profile::Release)?;
    let cluster = Cluster::with(config)?;
    cluster.down()?;
    cluster.up()?;
    cluster.import_image(&archive)?;
    Ok(cluster)
}

/// Applies the manifest of the agent and waits until it runs.
pub(crate) fn install_agent(cluster: &Cluster) -> Result<()> {
    let manifest = root().join(MANIFEST).display().to_string();
    cluster.kubectl(&["apply", "-f", &manifest])?;
    let rollout = ["rollout", "status", AGENT, "--timeout=120s"];
    cluster
        .kubectl(&[&["-n", AGENT_NAMESPACE][..], &rollout].concat())
        .map(drop)
}

/// Replaces this process: the task has the program's exit code and signals.
fn become_program(command: &mut Command) -> Result<()> {
    let error = command.exec();
    bail!(
        "start {}: {error}; is the cluster up?",
        command.get_program().display()
    )
}
