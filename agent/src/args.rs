//! Flags and environment: settings of the process. What usher may do comes from
//! the Node's annotations, not from here.

pub(crate) mod cni;

use std::{
    net::{Ipv6Addr, SocketAddr},
    path::PathBuf,
};

use clap::{Parser, ValueEnum};
use hyper::{Uri, http::uri::InvalidUri};

/// Where Kubernetes mounts a pod's ServiceAccount.
const SERVICE_ACCOUNT_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
const SERVICE_ACCOUNT_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Of the namespace that the kubelet's containers are in, by the plugin for
/// tasks of containerd 1.4 and later.
const BUNDLE_DIR: &str = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";

/// The first word of the command line of the process that holds starts.
pub(crate) const HOLDER: &str = "hold-starts";

/// Shows the sidecars of finished pods out.
#[derive(Debug, Parser)]
#[command(name = "usher-agent", version)]
pub(crate) struct Args {
    /// Name of the Node that this runs on
    #[arg(long, env = "NODE_NAME")]
    pub(crate) node_name: String,

    /// Where the cgroup file systems are mounted, or the cgroup that holds
    /// kubepods (where the kubelet has a --cgroup-root)
    #[arg(long, env = "USHER_CGROUP_ROOT", default_value = "/sys/fs/cgroup")]
    pub(crate) cgroup_root: PathBuf,

    /// Where procfs shows the processes of the host
    #[arg(long, env = "USHER_PROC", default_value = "/proc")]
    pub(crate) proc: PathBuf,

    /// The configuration file (YAML); where there is none the defaults count
    #[arg(long, env = "USHER_CONFIG", default_value = "/etc/usher/config.yaml")]
    pub(crate) config: PathBuf,

    /// Where the timeline, and what was last known of the Node, Namespaces and
    /// the configuration, are kept
    #[arg(long, env = "USHER_RUN_DIR", default_value = "/run/usher")]
    pub(crate) run_dir: PathBuf,

    /// Where containerd has the bundles of running containers; the host's
    /// /run/containerd is to be mounted with HostToContainer. Empty: no start
    /// is held
    #[arg(long, env = "USHER_BUNDLE_DIR", default_value = BUNDLE_DIR)]
    pub(crate) bundle_dir: PathBuf,

    /// The kubelet; http:// is taken for loopback addresses only
    #[arg(long, env = "USHER_KUBELET", default_value = "https://127.0.0.1:10250",
          value_parser = kubelet_url)]
    pub(crate) kubelet: Uri,

    /// Certificates that may have signed the kubelet's (PEM)
    #[arg(long, env = "USHER_KUBELET_CA", default_value = SERVICE_ACCOUNT_CA)]
    pub(crate) kubelet_ca: PathBuf,

    /// The kubelet's own certificate (PEM), where no CA signed it: usually
    /// /var/lib/kubelet/pki/kubelet.crt
    #[arg(long, env = "USHER_KUBELET_CERT")]
    pub(crate) kubelet_cert: Option<PathBuf>,

    /// Token for the kubelet; read anew for every request
    #[arg(long, env = "USHER_KUBELET_TOKEN", default_value = SERVICE_ACCOUNT_TOKEN)]
    pub(crate) kubelet_token: PathBuf,

    /// Where the Node's annotations come from; off: only the last known ones
    /// in the run directory count
    #[arg(long, env = "USHER_API_SERVER", default_value = "in-cluster")]
    pub(crate) api_server: ApiServer,

    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, env = "USHER_HTTP", default_value = "127.0.0.1:9643")]
    pub(crate) http: SocketAddr,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    // Last, since its heading is that of all that follow.
    #[command(flatten)]
    pub(crate) cni: cni::CniArgs,
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
}

impl Invocation {
    /// Reads the command line; exits where it cannot be used.
    pub(crate) fn parse() -> Self {
        let mut words = std::env::args_os().skip(1).peekable();
        if words.peek().is_some_and(|word| word == HOLDER) {
            Self::Holder(HolderArgs::parse_from(words))
        } else {
            Self::Agent(Box::new(Args::parse()))
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

/// Takes a URL whose host may be an IPv6 address without brackets, as it is
/// where `https://$(HOST_IP):10250` was filled in by Kubernetes.
fn kubelet_url(text: &str) -> Result<Uri, InvalidUri> {
    let bracketed = || {
        let (scheme, authority) = text.split_once("://")?;
        let (host, port) = authority.rsplit_once(':')?;
        host.parse::<Ipv6Addr>().ok()?;
        Some(format!("{scheme}://[{host}]:{port}"))
    };
    bracketed().as_deref().unwrap_or(text).parse()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn flags_are_consistent() {
        Args::command().debug_assert();
        HolderArgs::command().debug_assert();
    }

    #[test]
    fn kubelet_urls() {
        let host = |text| kubelet_url(text).map(|url| url.host().map(str::to_owned));
        assert_eq!(host("https://10.0.0.1:10250").unwrap().unwrap(), "10.0.0.1");
        assert_eq!(host("https://fd00::1:10250").unwrap().unwrap(), "[fd00::1]");
        assert_eq!(
            host("https://[fd00::1]:10250").unwrap().unwrap(),
            "[fd00::1]"
        );
        assert!(host("https://").is_err());
    }
}
