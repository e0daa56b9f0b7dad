//! `usher-agent`: watches the pods of its node and shows the sidecars of
//! finished pods out. See ARCHITECTURE.md for the way of an event through it.

mod announcements;
mod api_server;
mod app;
mod args;
mod attempt;
mod backoff;
mod config_file;
mod discovery;
mod hold;
mod holder;
mod http;
mod installer;
mod kernel;
mod kubelet;
mod metrics;
mod namespaces;
mod node;
mod recorder;
mod run_dir;
mod starts;
mod telemetry;

use std::process::ExitCode;

use args::Invocation;

fn main() -> ExitCode {
    let invocation = Invocation::parse();
    let log = match &invocation {
        Invocation::Agent(args) => &args.log,
        Invocation::Holder(args) => &args.log,
    };
    if let Err(error) = telemetry::init(log) {
        return fail(&error);
    }
    let ended = match invocation {
        Invocation::Agent(args) if args.cni.cni_uninstall => installer::uninstall(&args.cni),
        Invocation::Agent(args) => app::run(&args),
        Invocation::Holder(_) => holder::run(),
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
