//! `cargo xtask`: everything done to this repository that cargo alone does not do.

mod bench;
mod cluster;
mod demo;
mod docs;
mod image;
mod lint;
mod step;
mod supervisor;
mod test;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use usher_cluster::progress::say;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Development tasks of usher")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// The main job, for real: a Job with Istio's proxy, without usher's help and with it, in about two minutes
    Demo(demo::Args),
    /// Everything that can be tested: lint, unit and node tests, then the same agent on real clusters
    Test(test::Args),
    /// The same as in a pipeline: `test` where nothing may be skipped
    Ci(test::Args),
    /// The parts of the documentation that the code knows best, written into its pages
    Docs(docs::Args),
    /// Format, clippy, documentation, the policy for dependencies, the rules of this repository
    Lint,
    /// Measure, beside the alternative
    Bench(bench::Args),
    /// A real one-node Kubernetes cluster on this machine
    Cluster(cluster::Args),
    /// The agent's container image, as an archive
    Image(image::Args),
}

fn main() -> ExitCode {
    run(Args::parse().task).unwrap_or_else(|error| {
        say(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

fn run(task: Task) -> Result<ExitCode> {
    match task {
        Task::Demo(args) => demo::run(&args),
        Task::Test(args) => test::run(&args, test::skips_are_errors()),
        Task::Ci(args) => test::run(&args, true),
        Task::Docs(args) => done(docs::run(&args)),
        Task::Lint => done(lint::run()),
        Task::Bench(args) => bench::run(&args),
        Task::Cluster(args) => done(cluster::run(args)),
        Task::Image(args) => done(image::run(&args)),
    }
}

fn done(result: Result<()>) -> Result<ExitCode> {
    result.map(|()| ExitCode::SUCCESS)
}
