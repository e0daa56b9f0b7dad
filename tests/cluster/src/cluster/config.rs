//! The settings of a cluster, from its creator or from the environment.

use std::{env, path::PathBuf, str::FromStr};

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::Network;
use crate::{
    node::cgroup::Layout,
    programs::{Containerd, Kubernetes, OciRuntime, Sidecars},
};

#[derive(Debug, Clone)]
pub struct Config {
    /// Lower-case letters, digits and dashes. Clusters with different names can coexist.
    pub name: String,
    /// None: `<temporary directory>/usher-cluster-<name>`.
    pub state_dir: Option<PathBuf>,
    /// None: that of the cluster, or that of the machine.
    pub cgroups: Option<Layout>,
    /// None: that of the cluster, or the newest.
    pub kubernetes: Option<Kubernetes>,
    /// None: that of the cluster, or Debian's.
    pub containerd: Option<Containerd>,
    /// None: that of the cluster, or runc.
    pub runtime: Option<OciRuntime>,
    /// The requested sidecars.
    pub sidecars: Sidecars,
    pub network: Network,
    /// The minimum number of nodes; the first has the control plane. None: the existing ones, or one.
    pub nodes: Option<u8>,
    /// Fields of the kubelet's configuration that replace ours, read when the kubelet starts.
    pub kubelet: Map<String, Value>,
}

impl Config {
    /// The defaults, with `USHER_CLUSTER_DIR`, `USHER_CLUSTER_CGROUPS` (`hybrid` or `v2`), `USHER_CLUSTER_KUBERNETES`
    /// (`1.36` or `1.32`) and `USHER_CLUSTER_CONTAINERD` (`1.6` or `2`) applied.
    pub fn from_env(name: &str) -> Result<Self> {
        let state_dir = env::var_os("USHER_CLUSTER_DIR")
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from);
        Ok(Self {
            name: name.to_owned(),
            state_dir,
            cgroups: chosen("USHER_CLUSTER_CGROUPS")?,
            kubernetes: chosen("USHER_CLUSTER_KUBERNETES")?,
            containerd: chosen("USHER_CLUSTER_CONTAINERD")?,
            runtime: None,
            sidecars: Sidecars::default(),
            network: Network::default(),
            nodes: None,
            kubelet: Map::new(),
        })
    }
}

/// The value of a variable; an empty one counts as unset.
fn chosen<T: FromStr<Err = anyhow::Error>>(variable: &'static str) -> Result<Option<T>> {
    match env::var(variable) {
        Ok(text) if !text.is_empty() => text.parse().map(Some).context(variable),
        _ => Ok(None),
    }
}
