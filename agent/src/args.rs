//! Flags and environment variables: settings of the process. The Node's annotations set the modes.

pub(crate) mod cleanup;
mod sources;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Parser, ValueEnum};
use usher_client::{cni_args, node_args};
use usher_core::settings::config::origin::Setting;

use crate::serve::probes;

/// The first word of the holder's command line.
pub(crate) const HOLDER: &str = "hold-starts";

/// The first word of the worker's command line.
pub(crate) const WORKER: &str = "work";

/// The node agent of usher.
#[derive(Debug, Parser)]
#[command(name = "usher-agent", version)]
pub(crate) struct Args {
    /// Name of the agent's Node
    #[arg(long, env = "NODE_NAME")]
    pub(crate) node_name: String,

    /// The API server, for the Node's annotations, Namespaces and Events. off: the last known annotations in the run
    /// directory apply, and the agent sends no Events
    #[arg(long, env = "USHER_API_SERVER", default_value = "in-cluster")]
    pub(crate) api_server: ApiServer,

    /// Key of a startup taint, such as usher.dev/not-ready. The agent removes it from the Node when it is ready, which
    /// needs the permission to patch nodes. Empty: no taint
    #[arg(
        long,
        env = "USHER_STARTUP_TAINT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) startup_taint: String,

    /// Address of /metrics
    #[arg(
        long = "metrics-bind-address",
        env = "USHER_METRICS_BIND_ADDRESS",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9643"
    )]
    pub(crate) http: SocketAddr,

    /// Address of /healthz and /readyz, on loopback
    #[arg(
        long = "health-probe-bind-address",
        env = "USHER_HEALTH_PROBE_BIND_ADDRESS",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9644",
        value_parser = probes::parse_address
    )]
    pub(crate) probes: SocketAddr,

    /// Directories in which the runtime keeps the state of its containers: that
    /// of runc and crun under containerd, of runc and crun under CRI-O. A
    /// sidecar lingers where one of them has its state
    #[arg(
        long = "runtime-state-dir",
        env = "USHER_RUNTIME_STATE_DIR",
        value_name = "DIR",
        value_delimiter = ',',
        default_value = "/run/containerd/runc/k8s.io,/run/runc,/run/crun"
    )]
    pub(crate) runtime_state_dirs: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) cleanup: cleanup::CleanupArgs,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    #[command(flatten)]
    pub(crate) node: node_args::NodeArgs,

    // Last, because its help heading applies to all flags that follow.
    #[command(flatten)]
    pub(crate) cni: cni_args::CniArgs,

    /// Each flag's value and its source.
    #[arg(skip)]
    pub(crate) settings: Vec<Setting>,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LogArgs {
    /// Format of the log
    #[arg(long, env = "USHER_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Log filter: a level, or directives such as info,usher_agent=debug
    #[arg(long, env = "USHER_LOG", default_value = "info")]
    pub(crate) log: String,
}

impl LogArgs {
    /// The flags for a child process that logs like this one.
    pub(crate) fn flags(&self) -> Vec<String> {
        let format = match self.log_format {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        };
        let flags = ["--log-format", format, "--log", &self.log];
        flags.map(str::to_owned).into()
    }
}

/// The holder process, which the agent starts. Holds starts as ordered on standard input.
#[derive(Debug, Parser)]
#[command(name = "usher-agent hold-starts")]
pub(crate) struct HolderArgs {
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// The worker process, which the agent starts. Executes jobs in the network namespaces of pods, as received on standard
/// input.
#[derive(Debug, Parser)]
#[command(name = "usher-agent work")]
pub(crate) struct WorkerArgs {
    /// The host's /proc
    #[arg(long)]
    pub(crate) proc: PathBuf,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// The role of the process.
#[derive(Debug)]
pub(crate) enum Invocation {
    Agent(Box<Args>),
    Holder(HolderArgs),
    Worker(WorkerArgs),
    CleanupCluster(cleanup::CleanupClusterArgs),
}

impl Invocation {
    /// Parses the command line. Exits where it is invalid.
    pub(crate) fn parse() -> Self {
        let mut words = std::env::args_os().skip(1).peekable();
        if words.peek().is_some_and(|word| word == HOLDER) {
            Self::Holder(HolderArgs::parse_from(words))
        } else if words.peek().is_some_and(|word| word == WORKER) {
            Self::Worker(WorkerArgs::parse_from(words))
        } else if words.peek().is_some_and(|word| word == cleanup::CLUSTER) {
            Self::CleanupCluster(cleanup::CleanupClusterArgs::parse_from(words))
        } else {
            Self::Agent(Box::new(sources::parse()))
        }
    }

    pub(crate) fn log(&self) -> &LogArgs {
        match self {
            Self::Agent(args) => &args.log,
            Self::Holder(args) => &args.log,
            Self::Worker(args) => &args.log,
            Self::CleanupCluster(args) => &args.log,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApiServer {
    InCluster,
    Off,
}

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
        WorkerArgs::command().debug_assert();
        cleanup::CleanupClusterArgs::command().debug_assert();
    }
}
