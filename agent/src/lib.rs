//! What the programs of a node are made of. See ARCHITECTURE.md for the way of an event through the agent.
//!
//! `usher-agent` watches the pods of its node; the same binary holds starts, leaves a node, and has a whole cluster
//! left. `usher` is for people: it works on a node with and without an agent. Both are thin: what they share, as the
//! way off a host, is here once.

mod admin;
mod announcements;
mod api_server;
mod app;
mod args;
mod attempt;
mod backoff;
mod boundary;
mod cleanup;
mod command;
mod config_file;
mod discovery;
mod events;
mod hold;
mod holder;
mod http;
mod installer;
mod kernel;
mod kubelet;
mod leave;
mod leave_cluster;
mod metrics;
mod namespaces;
mod node;
mod recorder;
mod rights;
mod run_dir;
mod starts;
mod taint;
mod telemetry;
mod vitals;

use std::process::ExitCode;

use args::Invocation;

pub use command::{Shell, manual, run as usher};

/// The program `usher-agent`.
pub fn agent() -> ExitCode {
    let invocation = Invocation::parse();
    let given_up = rights::at_start(&invocation);
    let logging = match &invocation {
        Invocation::Holder(args) => telemetry::init_alone(&args.log).map(|()| None),
        others => telemetry::init(others.log()).map(Some),
    };
    // What is logged is written at the end at the latest, when this goes.
    let _writes = match logging {
        Ok(guard) => guard,
        Err(error) => return fail(&error),
    };
    rights::told(given_up);
    let ended = match invocation {
        Invocation::Agent(args) if args.leave.leave => leave::run(&args),
        Invocation::Agent(args) => app::run(&args),
        Invocation::Holder(_) => holder::run(),
        Invocation::LeaveCluster(args) => leave_cluster::run(&args),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %telemetry::chain(error.as_ref()), "usher-agent stopped");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "there is no log to write to yet")]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("usher-agent: {error:#}");
    // EX_USAGE of sysexits.h.
    ExitCode::from(64)
}
