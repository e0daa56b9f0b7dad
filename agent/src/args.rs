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

    /// Form of the log
    #[arg(long, env = "USHER_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// What is logged: a level, or directives such as info,usher_agent=debug
    #[arg(long, env = "USHER_LOG", default_value = "info")]
    pub(crate) log: String,

    // Last, since its heading is that of all that follow.
    #[command(flatten)]
    pub(crate) cni: cni::CniArgs,
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
