//! What the programs of a node are made of. See ARCHITECTURE.md for the way of an event through the agent.
//!
//! `usher-agent` watches the pods of its node; the same binary holds starts, leaves a node, and has a whole cluster
//! left. `usher` is for people: it works on a node with and without an agent. Both are thin: what they share, as the
//! way off a host, is here once.

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

use std::process::ExitCode;

use clap::CommandFactory;
use usher_client::error_chain::chain;

use self::{
    args::Invocation,
    install::{leave, leave_cluster},
    node::privileges,
    start::holder,
};

/// The program `usher-agent`.
pub fn agent() -> ExitCode {
    let invocation = Invocation::parse();
    let given_up = privileges::at_start(&invocation);
    let logging = match &invocation {
        Invocation::Holder(args) => telemetry::init_alone(&args.log).map(|()| None),
        others => telemetry::init(others.log()).map(Some),
    };
    // What is logged is written at the end at the latest, when this goes.
    let _writes = match logging {
        Ok(guard) => guard,
        Err(error) => return fail(&error),
    };
    privileges::told(given_up);
    let ended = match invocation {
        Invocation::Agent(args) if args.leave.leave => leave::run(&args),
        Invocation::Agent(args) => app::run(&args),
        Invocation::Holder(_) => holder::run(),
        Invocation::LeaveCluster(args) => leave_cluster::run(&args),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %chain(error.as_ref()), "usher-agent stopped");
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

/// The command lines of the program, for manual pages and completions. The first word of the second is an argument of the
/// first; as a page it has a name of its own.
pub fn commands() -> Vec<clap::Command> {
    vec![
        args::Args::command(),
        args::leave::LeaveClusterArgs::command()
            .name("usher-agent-leave-cluster")
            .bin_name("usher-agent leave-cluster"),
    ]
}
