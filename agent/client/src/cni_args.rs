//! Flags of the CNI plugin: its place on the host, and its configuration.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;
use usher_core::cni::protocol::{DEFAULT_LOG_FILE, DEFAULT_SOCKET};

/// Where the agent installs the CNI plugin. It installs nothing unless both directories are set.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "CNI plugin")]
pub struct CniArgs {
    /// Directory of the runtime's network configurations: where the host's
    /// /etc/cni/net.d is mounted. Empty: the plugin is not installed
    #[arg(
        long,
        env = "USHER_CNI_CONF_DIR",
        default_value = "",
        hide_default_value = true
    )]
    pub cni_conf_dir: OsString,

    /// Directory of the runtime's CNI plugins: where the host's /opt/cni/bin is mounted
    #[arg(
        long,
        env = "USHER_CNI_BIN_DIR",
        default_value = "",
        hide_default_value = true
    )]
    pub cni_bin_dir: OsString,

    /// The plugin's binary in the agent's image
    #[arg(long, env = "USHER_CNI_BINARY", default_value = "/usher-cni")]
    pub cni_binary: PathBuf,

    /// Name of the network configuration that gets the plugin's entry, with either extension. Default: the first one
    /// that runtimes can use. Needed where that is not the pods' own network, as with Multus
    #[arg(long, env = "USHER_CNI_CONF")]
    pub cni_conf: Option<String>,

    /// Path of the agent's CNI socket on the host
    #[arg(long, env = "USHER_CNI_SOCKET", default_value = DEFAULT_SOCKET)]
    pub cni_socket: PathBuf,

    /// Path of the plugin's error log on the host
    #[arg(long, env = "USHER_CNI_LOG", default_value = DEFAULT_LOG_FILE)]
    pub cni_log: PathBuf,

    /// The agent's own pods, which never wait for the agent, as
    /// NAMESPACE/NAME-PREFIX. Default: usher- in the agent's namespace
    #[arg(long, env = "USHER_CNI_OWN_POD")]
    pub cni_own_pod: Option<String>,

    /// The agent's namespace
    #[arg(long, env = "POD_NAMESPACE")]
    pub pod_namespace: Option<String>,
}
