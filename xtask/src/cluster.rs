//! `cargo xtask cluster`: the cluster of the tests, by hand.
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::{os::unix::process::CommandExt, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use usher_cluster::{
    Cluster, Config, Layout, Member, Network,
    programs::{Containerd, Sidecars},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Clusters of different names live side by side
    #[arg(long, global = true, default_value = "default")]
    name: String,
    /// What the node sees of cgroups: hybrid or v2 [default: what the machine has]
    #[arg(long, global = true)]
    cgroups: Option<Layout>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make the cluster, or what is missing of it
    Up {
        /// Which sidecars it has, all of which are built from source once: none, mesh (images of Istio's proxy and
        /// Envoy, a minute), istio (Istio itself, installed, five minutes more), all (images of Dapr's and the Cloud SQL
        /// proxy as well, four minutes more)
        #[arg(long, default_value = "mesh")]
        sidecars: Sidecars,
        /// Which CNI plugin makes pods' interfaces: bridge or ptp
        #[arg(long, default_value_t)]
        network: Network,
        /// Which containerd it runs: 1.6 (Debian's) or 2 (built from source once, one and a half minutes) [default: 1.6]
        #[arg(long)]
        containerd: Option<Containerd>,
        /// How many nodes it has at least, up to 8; the first has the control plane [default: what it has, or 1]
        #[arg(long)]
        nodes: Option<u8>,
    },
    /// End the cluster and remove every trace of it
    Down,
    /// Say what runs
    Status,
    /// Run kubectl as administrator
    Kubectl {
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run a command inside a node
    In {
        /// Which one; the first has the control plane
        #[arg(long, default_value_t = 1)]
        node: u8,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Give every node an image from an archive
    Import { archive: PathBuf },
}

pub(crate) fn run(args: Args) -> Result<()> {
    let mut config = Config::from_env(&args.name)?;
    config.cgroups = args.cgroups.or(config.cgroups);
    if let Action::Up {
        sidecars,
        network,
        containerd,
        nodes,
    } = args.action
    {
        config.nodes = nodes;
        config.sidecars = sidecars;
        config.network = network;
        config.containerd = containerd.or(config.containerd);
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
    for (component, alive) in status.components {
        println!("{:<24} {}", component.name(), word(alive));
    }
}

/// Its exit code and signals are then ours.
fn become_program(command: &mut Command) -> Result<()> {
    let error = command.exec();
    bail!(
        "start {}: {error}; is the cluster up?",
        command.get_program().display()
    )
}
