//! `cargo xtask`: everything done to this repository that cargo alone does not do.

mod ahead;
mod bench;
mod chart;
mod cluster;
mod demo;
mod dist;
mod docs;
mod fuzz;
mod image;
mod lint;
mod load;
mod picture;
mod plots;
mod reliability;
mod seccomp;
mod soak;
mod staged;
mod step;
mod supervisor;
mod test;
mod verdict;
mod vm;
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
    /// The dashboard's panels as pictures in the documentation, from a run on a real cluster with a real Prometheus
    Plots(staged::Args),
    /// What `usher` prints on a terminal as pictures in the documentation, from a run on a real cluster with real Istio
    Pictures(staged::Args),
    /// The plain manifests, rendered from the Helm chart
    Chart(chart::Args),
    /// Format, clippy, documentation, the policy for dependencies, the rules of this repository
    Lint(lint::Args),
    /// Broken bytes for every decoder of what comes from outside
    Fuzz(fuzz::Args),
    /// Measure, beside the alternative
    Bench(bench::Args),
    /// A real Kubernetes cluster on this machine, of one node or a few
    Cluster(cluster::Args),
    /// The agent's container image, as an archive
    Image(image::Args),
    /// The suites that the kernel has to do with, on older kernels, under software emulation
    Vm(vm::Args),
    /// Jobs of all kinds at random with random faults on synthetic pods, under a judge that knows what must become of each
    Soak(soak::Args),
    /// The seccomp profile of the agent's container, from the system calls of a real run
    Seccomp(seccomp::Args),
    /// The fault matrix in docs/reliability.md, with the results of its tests
    Reliability(reliability::Args),
    /// What a release is made of, for both architectures, in target/dist
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
        Task::Demo(args) => demo::run(&args),
        Task::Test(args) => test::run(&args, test::skips_are_errors()),
        Task::Ci(args) => test::run(&args, true),
        Task::Docs(args) => done(docs::run(&args)),
        Task::Plots(args) => plots::run(&args),
        Task::Pictures(args) => picture::run(&args),
        Task::Chart(args) => done(chart::run(&args)),
        Task::Lint(args) => done(lint::run(&args)),
        Task::Fuzz(args) => done(fuzz::run(&args)),
        Task::Bench(args) => bench::run(&args),
        Task::Cluster(args) => done(cluster::run(args)),
        Task::Image(args) => done(image::run(&args)),
        Task::Seccomp(args) => done(seccomp::run(&args)),
        Task::Dist(args) => done(dist::run(&args)),
        Task::Reliability(args) => done(reliability::run(&args)),
        Task::Vm(args) => done(vm::run(&args)),
        Task::Soak(args) => soak::run(&args, test::skips_are_errors()),
    }
}

fn done(result: Result<()>) -> Result<ExitCode> {
    result.map(|()| ExitCode::SUCCESS)
}
