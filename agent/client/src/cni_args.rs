//! Flags of the CNI plugin: where it goes on the host, and what it is told.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;
use usher_core::cni::protocol::{DEFAULT_LOG_FILE, DEFAULT_SOCKET};

/// Where the CNI plugin is installed. Nothing is, unless both directories are given.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "CNI plugin")]
pub struct CniArgs {
    /// The runtime's network configurations, where the host's
    /// /etc/cni/net.d is mounted; empty: the plugin is not installed
    #[arg(
        long,
        env = "USHER_CNI_CONF_DIR",
        default_value = "",
        hide_default_value = true
    )]
    pub cni_conf_dir: OsString,

    /// The runtime's CNI plugins, where the host's /opt/cni/bin is mounted
    #[arg(
        long,
        env = "USHER_CNI_BIN_DIR",
        default_value = "",
        hide_default_value = true
    )]
    pub cni_bin_dir: OsString,

    /// The plugin to install
    #[arg(long, env = "USHER_CNI_BINARY", default_value = "/usher-cni")]
    pub cni_binary: PathBuf,

    /// The name of the configuration to stand in, with either extension; by
    /// default the first that runtimes can use. Needed where that one is not
    /// the pods' own, as with Multus
    #[arg(long, env = "USHER_CNI_CONF")]
    pub cni_conf: Option<String>,

    /// Where the agent listens, as the plugin on the host sees it
    #[arg(long, env = "USHER_CNI_SOCKET", default_value = DEFAULT_SOCKET)]
    pub cni_socket: PathBuf,

    /// Where the plugin on the host writes what went wrong
    #[arg(long, env = "USHER_CNI_LOG", default_value = DEFAULT_LOG_FILE)]
    pub cni_log: PathBuf,

    /// The agent's own pods, which never wait for the agent, as
    /// NAMESPACE/NAME-PREFIX; by default usher- in the own namespace
    #[arg(long, env = "USHER_CNI_OWN_POD")]
    pub cni_own_pod: Option<String>,

    /// The own namespace
    #[arg(long, env = "POD_NAMESPACE")]
    pub pod_namespace: Option<String>,
}
