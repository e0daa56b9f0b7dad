//! The `usher` command-line tool.
//!
//! | folder | what |
//! | --- | --- |
//! | `pod` | reports about pods: `pods`, `stuck`, `explain`, `plan` |
//! | `network` | the network namespace of a pod: `conns`, `capture`, `connect`, `request`, `resolve`, `rules` |
//! | `operate` | operator requests to the agent: `quit`, `hold`, `release` |
//! | `node` | the node and its agent: `status`, `check`, `config`, `log`, `metrics`, `report`, `watch`, `sysdump`, `cleanup` |
//! | `data_source` | where reports come from: the agent, the node itself, or a sysdump (`--file`) |
//! | `output` | tables, JSON, YAML, and files that only their owner can read |
//! | `completion` | shell completion |
//! | `help` | commands and topics |
//! | `kubectl` | `kubectl usher`: runs `usher` in the agent on the node of a pod |
//! | `global`, `failure`, `stderr` | global flags, exit codes, errors |
//!
//! Results go to standard output, and everything else to standard error.
//!
//! A read command has three functions, so that a sysdump can store its report and `--file` can print it again:
//! `gather(&DataSource, pod) -> Result<Report, Failure>` collects the data for all flags, `filtered(Report, &Args)` is
//! pure, and the table is a function of the report alone, without clock, node or socket.

mod completion;
mod data_source;
mod failure;
mod global;
mod help;
#[cfg(feature = "kubectl")]
pub mod kubectl;
mod network;
mod node;
mod operate;
mod output;
mod pod;
mod stderr;

use std::{io, process::ExitCode};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};
use usher_sys::process::memory::{self, BoundedAllocator};

pub use self::completion::Shell;
use self::{
    failure::Failure,
    global::command_line::CommandLine,
    network::{capture, connect, conns, request, resolve, rules},
    node::{check, cleanup, config, log, metrics, report, status, sysdump, watch},
    operate::{hold, quit, release},
    pod::{explain, plan, pods, stuck},
    stderr::print_stderr,
};

/// Inspect and debug the pods of this node, and operate usher on it
///
/// POD is namespace/name, a UID, a container ID, a PID, an IP address, or a unique part of a name. Commands run nothing
/// in a pod. Of its files only connect and resolve read two, /etc/hosts and /etc/resolv.conf.
///
/// Exit codes: 0 success; 1 a problem was found, or something is left; 2 invalid command line; 3 refused by the agent
/// or the kernel; 4 no pod or several pods match POD; 5 the agent, the kubelet or the requested server does not answer.
#[derive(Debug, Parser)]
#[command(
    name = "usher",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct Args {
    #[command(flatten)]
    global: global::Global,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Capture(Box<capture::Args>),
    Check(Box<check::Args>),
    Cleanup(cleanup::Args),
    Completion(completion::Args),
    Config(config::Args),
    Connect(connect::Args),
    Conns(conns::Args),
    Explain(explain::Args),
    Help(help::Args),
    Hold(hold::Args),
    Log(log::Args),
    Metrics(metrics::Args),
    Plan(plan::Args),
    Pods(pods::Args),
    Quit(quit::Args),
    Release(release::Args),
    Report(report::Args),
    Request(Box<request::Args>),
    Resolve(resolve::Args),
    Rules(rules::Args),
    Status(status::Args),
    Stuck(stuck::Args),
    Sysdump(sysdump::Args),
    Watch(watch::Args),
    #[command(name = completion::COMPLETE, hide = true)]
    Complete(completion::Words),
}

#[global_allocator]
static MEMORY: BoundedAllocator = BoundedAllocator::new(
    "usher: this command needs more than half of the memory that its container has left, and ends before the kernel kills \
     the agent; run it on the node, or raise resources.limits.memory\n",
    1,
);

/// Runs the `usher` program.
pub fn run() -> ExitCode {
    // Half of the headroom stays free for the agent and for a second command.
    if let Some(headroom) = memory::headroom() {
        MEMORY.set_limit(headroom / 2);
    }
    match args(&Args::command().get_matches()) {
        Ok(args) => args.run(),
        Err(error) => error.exit(),
    }
}

/// The arguments, with the namespace of `-n` in the names of pods.
fn args(matches: &ArgMatches) -> Result<Args, clap::Error> {
    let command = Args::command();
    let namespace = matches.get_one::<String>("namespace");
    match (namespace, CommandLine::new(&command, matches)) {
        (Some(namespace), Some(mut line)) => {
            line.qualify(namespace)
                .map_err(|text| command.clone().error(ErrorKind::ValueValidation, text))?;
            let program = [command.get_name().into()];
            Args::try_parse_from(program.into_iter().chain(line.into_words()))
        }
        _ => Args::from_arg_matches(matches),
    }
}

impl Args {
    fn run(self) -> ExitCode {
        let Self { global, command } = self;
        if global.file.is_some() && !command.supports_file() {
            print_stderr("this command needs the live node and does not support --file");
            return global::Exit::Usage.into();
        }
        match command {
            Command::Capture(args) => block_on(capture::run(&args, &global)),
            Command::Check(args) => block_on(check::run(&args, &global)),
            Command::Cleanup(args) => end(cleanup::run(&args, &global)),
            Command::Completion(args) => end(completion::run(&args)),
            Command::Connect(args) => block_on(connect::run(&args, &global)),
            Command::Conns(args) => block_on(conns::run(&args, &global)),
            Command::Config(args) => block_on(config::run(&args, &global)),
            Command::Explain(args) => block_on(explain::run(&args, &global)),
            Command::Help(args) => end(help::run(&args, Args::command())),
            Command::Hold(args) => block_on(hold::run(&args, &global)),
            Command::Log(args) => block_on(log::run(&args, &global)),
            Command::Metrics(args) => block_on(metrics::run(&args, &global)),
            Command::Plan(args) => block_on(plan::run(&args, &global)),
            Command::Pods(args) => block_on(pods::run(&args, &global)),
            Command::Quit(args) => block_on(quit::run(&args, &global)),
            Command::Release(args) => block_on(release::run(&args, &global)),
            Command::Report(args) => block_on(report::run(&args, &global)),
            Command::Request(args) => block_on(request::run(&args, &global)),
            Command::Resolve(args) => block_on(resolve::run(&args, &global)),
            Command::Rules(args) => block_on(rules::run(&args, &global)),
            Command::Status(args) => block_on(status::run(&args, &global)),
            Command::Stuck(args) => block_on(stuck::run(&args, &global)),
            Command::Sysdump(args) => block_on(sysdump::run(&args, &global)),
            Command::Watch(args) => block_on(watch::run(&args, &global)),
            Command::Complete(words) => {
                completion::complete(words, Args::command(), &global.node).into()
            }
        }
    }
}

impl Command {
    /// Whether the command can answer from `--file`, or does not read the node.
    const fn supports_file(&self) -> bool {
        match self {
            Self::Check(_)
            | Self::Config(_)
            | Self::Conns(_)
            | Self::Explain(_)
            | Self::Metrics(_)
            | Self::Plan(_)
            | Self::Pods(_)
            | Self::Report(_)
            | Self::Rules(_)
            | Self::Status(_)
            | Self::Stuck(_) => true,
            // These commands do not read the node, so the flag has no effect.
            Self::Completion(_) | Self::Complete(_) | Self::Help(_) => true,
            Self::Capture(_)
            | Self::Cleanup(_)
            | Self::Connect(_)
            | Self::Hold(_)
            | Self::Log(_)
            | Self::Quit(_)
            | Self::Release(_)
            | Self::Request(_)
            | Self::Resolve(_)
            | Self::Sysdump(_)
            | Self::Watch(_) => false,
        }
    }
}

fn block_on<E: Into<ExitCode>>(command: impl Future<Output = Result<E, Failure>>) -> ExitCode {
    let runtime = runtime().map_err(|error| Failure::unavailable(format!("cannot start: {error}")));
    end(runtime.and_then(|runtime| runtime.block_on(command)))
}

/// The exit code of a command. Reports its failure.
fn end(ended: Result<impl Into<ExitCode>, Failure>) -> ExitCode {
    ended.map_or_else(|failure| failure.report().into(), Into::into)
}

/// A runtime on the current thread.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// The command line, for manual pages and completions.
pub fn command() -> clap::Command {
    Args::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_consistent() {
        Args::command().debug_assert();
    }
}
