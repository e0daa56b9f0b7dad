//! Places on a node: the same flags and variables for the agent and for the command-line tool `usher`, which works in
//! the agent's container and without an agent.

use std::{net::Ipv6Addr, path::PathBuf};

use clap::builder::{OsStringValueParser, StringValueParser, TypedValueParser};
use hyper::{Uri, http::uri::InvalidUri};

/// Files of a pod's ServiceAccount.
const SERVICE_ACCOUNT_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
const SERVICE_ACCOUNT_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// containerd 1.4 and later: the task plugin's bundles, in the kubelet's containerd namespace.
const BUNDLE_DIR: &str = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";

/// Places on a node.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Node")]
pub struct NodeArgs {
    /// Mount point of the cgroup file systems, or the cgroup that contains
    /// kubepods (where the kubelet has a --cgroup-root)
    #[arg(
        long,
        global = true,
        env = "USHER_CGROUP_ROOT",
        value_name = "DIR",
        default_value = "/sys/fs/cgroup"
    )]
    pub cgroup_root: PathBuf,

    /// Mount point of the host's procfs
    #[arg(
        long,
        global = true,
        env = "USHER_PROC",
        value_name = "DIR",
        default_value = "/proc"
    )]
    pub proc: PathBuf,

    /// The configuration file (YAML). Without the file the defaults apply
    #[arg(
        long,
        global = true,
        env = "USHER_CONFIG",
        value_name = "FILE",
        default_value = "/etc/usher/config.yaml"
    )]
    pub config: PathBuf,

    /// Directory of the timeline, the sockets, and the last known state of the Node, Namespaces and the configuration
    #[arg(
        long,
        global = true,
        env = "USHER_RUN_DIR",
        value_name = "DIR",
        default_value = "/run/usher"
    )]
    pub run_dir: PathBuf,

    /// Directory of containerd's bundles of running containers. Mount the directory above it from the host, with
    /// HostToContainer.
    /// Empty: the agent holds no starts
    #[arg(long, global = true, env = "USHER_BUNDLE_DIR", value_name = "DIR", default_value = BUNDLE_DIR,
          value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub bundle_dir: PathBuf,

    #[command(flatten)]
    pub kubelet: KubeletArgs,
}

/// Address, certificates and token of the kubelet.
#[derive(Debug, Clone, clap::Args)]
pub struct KubeletArgs {
    /// URL of the kubelet. http:// only with a loopback address
    #[arg(id = "kubelet", long = "kubelet", global = true, env = "USHER_KUBELET", value_name = "URL",
          default_value = "https://127.0.0.1:10250", value_parser = kubelet_url)]
    pub url: Uri,

    /// CA certificates for the kubelet's certificate (PEM)
    #[arg(id = "kubelet_ca", long = "kubelet-ca", global = true, env = "USHER_KUBELET_CA", value_name = "FILE", default_value = SERVICE_ACCOUNT_CA)]
    pub ca: PathBuf,

    /// The kubelet's certificate (PEM), where it is self-signed. auto: the node's /var/lib/kubelet/pki/kubelet.crt, if
    /// it exists. Empty: the CA has to verify the kubelet
    #[arg(
        id = "kubelet_cert",
        long = "kubelet-cert",
        global = true,
        env = "USHER_KUBELET_CERT",
        value_name = "auto|FILE",
        default_value = "auto",
        value_parser = StringValueParser::new().map(Certificate::from)
    )]
    pub certificate: Certificate,

    /// The host's root directory, for the kubelet's certificate
    #[arg(
        long,
        global = true,
        env = "USHER_HOST_ROOT",
        value_name = "DIR",
        default_value = "/proc/1/root"
    )]
    pub host_root: PathBuf,

    /// Token for the kubelet. The agent reads the file for every request
    #[arg(id = "kubelet_token", long = "kubelet-token", global = true, env = "USHER_KUBELET_TOKEN", value_name = "FILE", default_value = SERVICE_ACCOUNT_TOKEN)]
    pub token: PathBuf,
}

/// How the kubelet's self-signed certificate is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    Auto,
    None,
    File(PathBuf),
}

impl From<String> for Certificate {
    fn from(text: String) -> Self {
        match text.as_str() {
            "auto" => Self::Auto,
            "" => Self::None,
            path => Self::File(path.into()),
        }
    }
}

/// Parses a URL with an IPv6 address that may lack its brackets, as Kubernetes makes of `https://$(HOST_IP):10250`.
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
    fn bundle_dir_may_be_empty() {
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
