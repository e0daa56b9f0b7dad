//! Flags of the removal from a node and from a cluster.

use std::time::Duration;

use clap::{Args, Parser, builder::FalseyValueParser};
use usher_core::base::duration;

use super::LogArgs;

/// The first word of the command line that removes usher from a cluster.
pub(crate) const CLUSTER: &str = "cleanup-cluster";

#[derive(Debug, Clone, Args)]
pub(crate) struct CleanupArgs {
    /// Remove everything that usher has on the node, and watch no pods. The
    /// agent is ready when nothing is left, and runs until it is terminated
    #[arg(long, env = "USHER_CLEANUP", value_parser = FalseyValueParser::new())]
    pub(crate) cleanup: bool,

    /// Name of the agent's DaemonSet, in its namespace. An agent that is
    /// terminated after the deletion of this DaemonSet removes everything that
    /// usher has on the node. Empty: the CNI plugin stays installed
    #[arg(
        long,
        env = "USHER_DAEMONSET",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) daemonset: String,
}

/// Makes every agent of a DaemonSet remove usher from its node, and waits until all nodes are clean. Run it right before
/// the DaemonSet is deleted.
#[derive(Debug, Parser)]
#[command(name = "usher-agent cleanup-cluster", version)]
pub(crate) struct CleanupClusterArgs {
    /// Namespace of the DaemonSet
    #[arg(long, env = "POD_NAMESPACE")]
    pub(crate) namespace: String,

    /// Name of the DaemonSet
    #[arg(long, default_value = "usher")]
    pub(crate) daemonset: String,

    /// Name of the agent's container in it
    #[arg(long, default_value = "agent")]
    pub(crate) container: String,

    /// Deadline for all nodes together
    #[arg(long, default_value = "2m", value_parser = duration::parse)]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}
