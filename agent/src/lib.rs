//! The node agent of usher. ARCHITECTURE.md follows an event through it.
//!
//! | module | contents |
//! | --- | --- |
//! | `args` | flags and environment variables of each invocation of the binary |
//! | `app` | wiring: the event loop, the service thread, and the channels between them |
//! | `event_loop` | passes events to the engine of `usher-core`, and carries out its actions |
//! | `node` | reads of the node: containers, kernel features, the configuration file, own privileges |
//! | `quit` | attempts to terminate a sidecar: jobs of the worker, and signals |
//! | `hold` | sandboxes with held connections: the CNI socket, and jobs of the worker |
//! | `worker` | the worker process: everything inside the network namespaces of pods |
//! | `start` | held starts and stop signals: the runtime's bundles and state, and the holder process |
//! | `kubernetes` | the kubelet's pods, the Node, Namespaces, Events, the startup taint |
//! | `serve` | health, readiness and metrics over HTTP, and the admin socket |
//! | `install` | the CNI plugin's installation; `--cleanup` and `cleanup-cluster`, which remove usher |
//! | `telemetry` | log, metrics, health, and the recorder of decisions |
//!
//! One binary has five roles: the agent; the worker and holder processes that the agent starts (`work`, `hold-starts`);
//! the agent that removes usher from its node (`--cleanup`); and the Job that makes all agents of a cluster do so
//! (`cleanup-cluster`). The command-line tool `usher` is the crate `usher-cli`. Both use `usher-client`.

mod app;
mod args;
mod event_loop;
mod hold;
mod install;
mod kubernetes;
mod node;
mod quit;
mod serve;
mod start;
mod telemetry;
mod worker;

use std::process::ExitCode;

use clap::CommandFactory;
use usher_client::error_chain::chain;
use usher_sys::process::descriptor_table;

use self::{
    args::Invocation,
    install::{cleanup, cleanup_cluster},
    node::privileges,
    start::holder,
};

/// Runs `usher-agent` to its end.
pub fn agent() -> ExitCode {
    let invocation = Invocation::parse();
    // Before the first thread is started.
    let descriptors = descriptor_table::prepare();
    let dropped = privileges::drop_at_start(&invocation);
    let logging = match &invocation {
        Invocation::Holder(args) => telemetry::init_single_threaded(&args.log).map(|()| None),
        others => telemetry::init(others.log()).map(Some),
    };
    // Dropping the guard flushes the log.
    let _flush = match logging {
        Ok(guard) => guard,
        Err(error) => return fail(&error),
    };
    privileges::log_failure(dropped);
    if let Err(error) = descriptors {
        tracing::warn!(error = %chain(&error), "could not prepare the table of open descriptors");
    }
    let ended = match invocation {
        Invocation::Agent(args) if args.cleanup.cleanup => cleanup::run(&args),
        Invocation::Agent(args) => app::run(&args),
        Invocation::Holder(_) => holder::run(),
        Invocation::Worker(args) => worker::run(&args),
        Invocation::CleanupCluster(args) => cleanup_cluster::run(&args),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %chain(error.as_ref()), "usher-agent stopped");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "logging has not started")]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("usher-agent: {error:#}");
    // EX_USAGE of sysexits.h.
    ExitCode::from(64)
}

/// The command lines of `usher-agent`, for manual pages and completions. `cleanup-cluster` is a subcommand of the same
/// binary with its own manual page.
pub fn commands() -> Vec<clap::Command> {
    vec![
        args::Args::command(),
        args::cleanup::CleanupClusterArgs::command()
            .name("usher-agent-cleanup-cluster")
            .bin_name("usher-agent cleanup-cluster"),
    ]
}
