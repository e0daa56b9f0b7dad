//! Flags and environment: settings of the process. What usher may do comes from
//! the Node's annotations, not from here.

pub(crate) mod leave;
mod sources;

use std::net::SocketAddr;

use clap::{Parser, ValueEnum};
use usher_client::{cni_args, node_args};
use usher_core::settings::config::origin::Setting;

/// The first word of the command line of the process that holds starts.
pub(crate) const HOLDER: &str = "hold-starts";

/// Shows the sidecars of finished pods out.
#[derive(Debug, Parser)]
#[command(name = "usher-agent", version)]
pub(crate) struct Args {
    /// Name of the Node that this runs on
    #[arg(long, env = "NODE_NAME")]
    pub(crate) node_name: String,

    /// Where the Node's annotations come from and Events go to; off: only the
    /// last known ones in the run directory count, and nobody is told
    #[arg(long, env = "USHER_API_SERVER", default_value = "in-cluster")]
    pub(crate) api_server: ApiServer,

    /// The key of a taint that is taken off the Node when the agent is ready,
    /// such as usher.dev/not-ready; needs the right to patch nodes. Empty: none
    #[arg(
        long,
        env = "USHER_STARTUP_TAINT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) startup_taint: String,

    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, env = "USHER_HTTP", default_value = "127.0.0.1:9643")]
    pub(crate) http: SocketAddr,

    #[command(flatten)]
    pub(crate) leave: leave::LeaveArgs,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    #[command(flatten)]
    pub(crate) node: node_args::NodeArgs,

    // Last, since its heading is that of all that follow.
    #[command(flatten)]
    pub(crate) cni: cni_args::CniArgs,

    /// What each flag is, and who says so.
    #[arg(skip)]
    pub(crate) settings: Vec<Setting>,
}

/// How it logs.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LogArgs {
    /// Form of the log
    #[arg(long, env = "USHER_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// What is logged: a level, or directives such as info,usher_agent=debug
    #[arg(long, env = "USHER_LOG", default_value = "info")]
    pub(crate) log: String,
}

impl LogArgs {
    /// The flags that a child logs by as this process does.
    pub(crate) fn flags(&self) -> Vec<String> {
        let format = match self.log_format {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        };
        let flags = ["--log-format", format, "--log", &self.log];
        flags.map(str::to_owned).into()
    }
}

/// Holds starts as the agent asks on standard input; the agent starts it.
#[derive(Debug, Parser)]
#[command(name = "usher-agent hold-starts")]
pub(crate) struct HolderArgs {
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// What the program is to be.
#[derive(Debug)]
pub(crate) enum Invocation {
    Agent(Box<Args>),
    Holder(HolderArgs),
    LeaveCluster(leave::LeaveClusterArgs),
}

impl Invocation {
    /// Reads the command line; exits where it cannot be used.
    pub(crate) fn parse() -> Self {
        let mut words = std::env::args_os().skip(1).peekable();
        if words.peek().is_some_and(|word| word == HOLDER) {
            Self::Holder(HolderArgs::parse_from(words))
        } else if words.peek().is_some_and(|word| word == leave::CLUSTER) {
            Self::LeaveCluster(leave::LeaveClusterArgs::parse_from(words))
        } else {
            Self::Agent(Box::new(sources::parse()))
        }
    }

    /// How it logs.
    pub(crate) fn log(&self) -> &LogArgs {
        match self {
            Self::Agent(args) => &args.log,
            Self::Holder(args) => &args.log,
            Self::LeaveCluster(args) => &args.log,
        }
    }
}

/// Whether the API server is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApiServer {
    InCluster,
    Off,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn flags_are_consistent() {
        Args::command().debug_assert();
        HolderArgs::command().debug_assert();
        leave::LeaveClusterArgs::command().debug_assert();
    }
}
