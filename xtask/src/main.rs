//! `cargo xtask`: everything done to this repository that cargo alone does not do.

mod cluster;
mod image;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Development tasks of usher")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// A real one-node Kubernetes cluster on this machine
    Cluster(cluster::Args),
    /// The agent's container image, as an archive
    Image(image::Args),
}

fn main() -> Result<()> {
    match Args::parse().task {
        Task::Cluster(args) => cluster::run(args),
        Task::Image(args) => image::run(&args),
    }
}
