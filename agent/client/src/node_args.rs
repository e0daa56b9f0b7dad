//! Where things are on a node: the same flags and variables for the agent and for the program `usher`, which works
//! beside it, in its container, or without it.

use std::{net::Ipv6Addr, path::PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use hyper::{Uri, http::uri::InvalidUri};

/// Where Kubernetes mounts a pod's ServiceAccount.
const SERVICE_ACCOUNT_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
const SERVICE_ACCOUNT_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Of the namespace that the kubelet's containers are in, by the plugin for
/// tasks of containerd 1.4 and later.
const BUNDLE_DIR: &str = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";

/// Where things are on a node.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Node")]
pub struct NodeArgs {
    /// Where the cgroup file systems are mounted, or the cgroup that holds
    /// kubepods (where the kubelet has a --cgroup-root)
    #[arg(
        long,
        global = true,
        env = "USHER_CGROUP_ROOT",
        value_name = "DIR",
        default_value = "/sys/fs/cgroup"
    )]
    pub cgroup_root: PathBuf,

    /// Where procfs shows the processes of the host
    #[arg(
        long,
        global = true,
        env = "USHER_PROC",
        value_name = "DIR",
        default_value = "/proc"
    )]
    pub proc: PathBuf,

    /// The configuration file (YAML); where there is none the defaults count
    #[arg(
        long,
        global = true,
        env = "USHER_CONFIG",
        value_name = "FILE",
        default_value = "/etc/usher/config.yaml"
    )]
    pub config: PathBuf,

    /// Where the timeline, the sockets, and what was last known of the Node,
    /// Namespaces and the configuration are kept
    #[arg(
        long,
        global = true,
        env = "USHER_RUN_DIR",
        value_name = "DIR",
        default_value = "/run/usher"
    )]
    pub run_dir: PathBuf,

    /// Where containerd has the bundles of running containers; the host's
    /// /run/containerd is to be mounted with HostToContainer. Empty: no start
    /// is held
    #[arg(long, global = true, env = "USHER_BUNDLE_DIR", value_name = "DIR", default_value = BUNDLE_DIR,
          value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub bundle_dir: PathBuf,

    #[command(flatten)]
    pub kubelet: KubeletArgs,
}

/// How the kubelet is asked.
#[derive(Debug, Clone, clap::Args)]
pub struct KubeletArgs {
    /// The kubelet; http:// is taken for loopback addresses only
    #[arg(id = "kubelet", long = "kubelet", global = true, env = "USHER_KUBELET", value_name = "URL",
          default_value = "https://127.0.0.1:10250", value_parser = kubelet_url)]
    pub url: Uri,

    /// Certificates that may have signed the kubelet's (PEM)
    #[arg(id = "kubelet_ca", long = "kubelet-ca", global = true, env = "USHER_KUBELET_CA", value_name = "FILE", default_value = SERVICE_ACCOUNT_CA)]
    pub ca: PathBuf,

    /// The kubelet's own certificate (PEM), where no CA signed it: usually
    /// /var/lib/kubelet/pki/kubelet.crt
    #[arg(
        id = "kubelet_cert",
        long = "kubelet-cert",
        global = true,
        env = "USHER_KUBELET_CERT",
        value_name = "FILE"
    )]
    pub certificate: Option<PathBuf>,

    /// Token for the kubelet; read anew for every request
    #[arg(id = "kubelet_token", long = "kubelet-token", global = true, env = "USHER_KUBELET_TOKEN", value_name = "FILE", default_value = SERVICE_ACCOUNT_TOKEN)]
    pub token: PathBuf,
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
    use clap::Parser;

    use super::*;

    #[test]
    fn no_bundle_dir_is_one_too() {
        #[derive(Parser)]
        struct Args {
            #[command(flatten)]
            node: NodeArgs,
        }
        let args = Args::try_parse_from(["usher", "--bundle-dir", ""]).unwrap();
        assert_eq!(args.node.bundle_dir, PathBuf::new());
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
