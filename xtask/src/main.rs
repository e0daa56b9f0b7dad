//! `cargo xtask`: development tasks that cargo does not have.

mod bench;
mod cluster;
mod demo;
mod docs;
mod file;
mod lint;
mod list;
mod pictures;
mod release;
mod step;
mod supervisor;
mod test;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use usher_cluster::{programs::Profile, progress::say};

use self::{
    release::{chart, dist, image},
    test::{fuzz, soak, vm},
};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Development tasks of usher")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run a Job with Istio's proxy on a real cluster, without usher's help and with it
    Demo,
    /// Run lint, unit tests, node tests and the tests on a real cluster
    Test(test::Args),
    /// Write the generated parts of the documentation
    Docs,
    /// Draw the pictures of the documentation from a run on a real cluster with Istio and Prometheus
    Pictures(pictures::Args),
    /// Render the plain manifests from the Helm chart
    Chart(chart::Args),
    /// Check format, the rules of this repository, generated documentation, chart, dependencies, clippy and rustdoc
    Lint(lint::Args),
    /// Fuzz every decoder of external input
    Fuzz(fuzz::Args),
    /// Measure usher and its alternatives in the same run
    Bench(bench::Args),
    /// Manage a real Kubernetes cluster of one node or more on this machine
    Cluster(cluster::Args),
    /// Build the agent's container image, as an archive
    Image,
    /// Run the suites that depend on the kernel on older kernels, under software emulation
    Vm(vm::Args),
    /// Run random Jobs with random faults on synthetic pods for hours and judge each result
    Soak(soak::Args),
    /// Build the files of a release for both architectures, in target/dist
    Dist(dist::Args),
}

fn main() -> ExitCode {
    run(Args::parse().task).unwrap_or_else(|error| {
        say(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

fn run(task: Task) -> Result<ExitCode> {
    match task {
        Task::Demo => demo::run(),
        Task::Test(args) => test::run(&args),
        Task::Docs => done(docs::write()),
        Task::Pictures(args) => pictures::run(&args),
        Task::Chart(args) => done(chart::run(&args)),
        Task::Lint(args) => done(lint::run(&args)),
        Task::Fuzz(args) => done(fuzz::run(&args)),
        Task::Bench(args) => bench::run(&args),
        Task::Cluster(args) => done(cluster::run(args)),
        Task::Image => done(image::agent(Profile::Release).map(drop)),
        Task::Dist(args) => done(dist::run(&args)),
        Task::Vm(args) => vm::run(&args),
        Task::Soak(args) => soak::run(&args),
    }
}

fn done(result: Result<()>) -> Result<ExitCode> {
    result.map(|()| ExitCode::SUCCESS)
}
