//! Flags of the ways off a node and off a cluster.

use std::time::Duration;

use clap::{Args, Parser, builder::FalseyValueParser};
use usher_core::base::duration;

use super::LogArgs;

/// The first word of the command line that has a whole cluster left.
pub(crate) const CLUSTER: &str = "leave-cluster";

/// Whether the agent is here to go.
#[derive(Debug, Clone, Args)]
pub(crate) struct LeaveArgs {
    /// Take everything of usher off the node and watch nothing: ready when
    /// nothing is left but the process itself, which waits to be ended
    #[arg(long, env = "USHER_LEAVE", value_parser = FalseyValueParser::new())]
    pub(crate) leave: bool,
}

/// Has all agents of a DaemonSet leave their nodes, and waits until they have;
/// for the time right before the DaemonSet is deleted.
#[derive(Debug, Parser)]
#[command(name = "usher-agent leave-cluster", version)]
pub(crate) struct LeaveClusterArgs {
    /// Namespace of the DaemonSet
    #[arg(long, env = "POD_NAMESPACE")]
    pub(crate) namespace: String,

    /// Name of the DaemonSet
    #[arg(long, default_value = "usher")]
    pub(crate) daemonset: String,

    /// Name of the agent's container in it
    #[arg(long, default_value = "agent")]
    pub(crate) container: String,

    /// How long all nodes together may take
    #[arg(long, default_value = "2m", value_parser = duration::parse)]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}
