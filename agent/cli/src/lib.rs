//! The program `usher`: what people do on a node by hand, where an agent runs and where none does.
//!
//! One room for each subcommand. Results go to standard output and complaints to standard error; the exit code says how
//! it went: see [`global::Exit`].
//!
//! A command that reads is three functions, so that a sysdump can hold its answer and `--file` can show it again:
//! `gather(&Source, pod) -> Result<Report, Failure>` has everything in it that any flag can show, `narrowed(Report, &Args)`
//! is pure, and the report's table is a function of the report alone, without clock, node or socket.

mod completion;
mod failure;
mod global;
mod node;
mod output;
mod pod;
mod source;

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use clap::{CommandFactory, Parser, Subcommand};

pub use self::completion::Shell;
use self::{
    node::{check, cleanup, config, log, metrics, status, sysdump, watch},
    pod::{capture, conns, explain, hold, plan, pods, quit, release, request, rules},
};

/// Shows and explains what goes on in the pods of a node, and looks after usher on it
///
/// Pods are named by namespace/name, UID, container id, pid, IP or a unique part
/// of their name. Nothing is executed in a pod, and its files are not touched.
///
/// Exits with 0 when all is well, 1 when something is wrong or left, 2 when the
/// command line cannot be used, 3 when the agent or the kernel says no, 4 when
/// it is not exactly one pod, 5 when what is to be asked does not answer.
#[derive(Debug, Parser)]
#[command(name = "usher", version, arg_required_else_help = true)]
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
    Conns(conns::Args),
    Explain(explain::Args),
    Hold(hold::Args),
    Log(log::Args),
    Metrics(metrics::Args),
    Plan(plan::Args),
    Pods(pods::Args),
    Quit(quit::Args),
    Release(release::Args),
    Request(Box<request::Args>),
    Rules(rules::Args),
    Status(status::Args),
    Sysdump(sysdump::Args),
    Watch(watch::Args),
    #[command(name = completion::COMPLETE, hide = true)]
    Complete(completion::Words),
}

/// The program `usher`.
pub fn run() -> ExitCode {
    let Args { global, command } = Args::parse();
    if global.file.is_some() && !command.reads_back() {
        complain("this asks the node as it is now, so --file cannot answer it");
        return global::Exit::Usage.into();
    }
    match command {
        Command::Capture(args) => ask(capture::run(&args, &global)),
        Command::Check(args) => ask(check::run(&args, &global)),
        Command::Cleanup(args) => cleanup::run(&args),
        Command::Completion(args) => completion::run(&args),
        Command::Conns(args) => ask(conns::run(&args, &global)),
        Command::Config(args) => ask(config::run(&args, &global)),
        Command::Explain(args) => ask(explain::run(&args, &global)),
        Command::Hold(args) => ask(hold::run(&args, &global)),
        Command::Log(args) => ask(log::run(&args, &global)),
        Command::Metrics(args) => ask(metrics::run(&args, &global)),
        Command::Plan(args) => ask(plan::run(&args, &global)),
        Command::Pods(args) => ask(pods::run(&args, &global)),
        Command::Quit(args) => ask(quit::run(&args, &global)),
        Command::Release(args) => ask(release::run(&args, &global)),
        Command::Request(args) => ask(request::run(&args, &global)),
        Command::Rules(args) => ask(rules::run(&args, &global)),
        Command::Status(args) => ask(status::run(&args, &global)),
        Command::Sysdump(args) => ask(sysdump::run(&args, &global)),
        Command::Watch(args) => ask(watch::run(&args, &global)),
        Command::Complete(words) => {
            ask(completion::complete(&words, Args::command(), &global.node))
        }
    }
}

impl Command {
    /// Whether it answers from `--file`.
    const fn reads_back(&self) -> bool {
        match self {
            Self::Check(_)
            | Self::Config(_)
            | Self::Conns(_)
            | Self::Explain(_)
            | Self::Metrics(_)
            | Self::Plan(_)
            | Self::Pods(_)
            | Self::Rules(_)
            | Self::Status(_) => true,
            // Nothing of a node is asked.
            Self::Completion(_) | Self::Complete(_) => true,
            Self::Capture(_)
            | Self::Cleanup(_)
            | Self::Hold(_)
            | Self::Log(_)
            | Self::Quit(_)
            | Self::Release(_)
            | Self::Request(_)
            | Self::Sysdump(_)
            | Self::Watch(_) => false,
        }
    }
}

/// Runs what waits for others, on this thread.
fn ask(command: impl Future<Output = global::Exit>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(command).into(),
        Err(error) => {
            complain(&format!("cannot begin: {error}"));
            global::Exit::Absent.into()
        }
    }
}

/// The command line, for manual pages and completions.
pub fn command() -> clap::Command {
    Args::command()
}

/// A line for whoever reads what is wrong; nobody may.
fn complain(line: &str) {
    drop(writeln!(io::stderr().lock(), "usher: {line}"));
}

/// Milliseconds as people say them: nothing behind the second, and two words at most.
fn span(ms: u64) -> String {
    let whole = Duration::from_secs(ms / 1000);
    let text = humantime::format_duration(whole).to_string();
    let words: Vec<&str> = text.split(' ').take(2).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_consistent() {
        Args::command().debug_assert();
    }
}
