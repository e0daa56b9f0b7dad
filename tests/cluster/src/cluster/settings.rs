//! The configuration files of the components, with the reason for each setting.

use std::{fmt, fs, path::Path, str::FromStr};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use super::{
    Member,
    state::{Facts, State, replace},
};
use crate::{
    image::catalog,
    node::{self, CLUSTER_PODS, cgroup::Layout},
};

/// The directory of the node's network configuration. An existing file is left unchanged, because the project's own
/// agent edits it.
const NETWORKS: &str = "cni/net.d";

/// The CNI plugin that creates pods' interfaces. A cluster keeps its initial one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// All pods on one bridge.
    #[default]
    Bridge,
    /// Each pod on a cable of its own, as with many clouds' plugins.
    Ptp,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bridge => "bridge",
            Self::Ptp => "ptp",
        })
    }
}

impl FromStr for Network {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "bridge" => Ok(Self::Bridge),
            "ptp" => Ok(Self::Ptp),
            other => bail!("network {other:?}: bridge or ptp"),
        }
    }
}

pub(super) fn write(
    member: &Member,
    facts: &Facts,
    runc: &Path,
    options: &Map<String, Value>,
    network: Network,
) -> Result<()> {
    let state = &member.state;
    let networks = state.dir().join(NETWORKS);
    let mut there = fs::read_dir(&networks)
        .with_context(|| format!("list {}", networks.display()))?
        .flatten();
    if !there.any(|file| file.path().extension().is_some_and(|end| end == "conflist")) {
        let conflist = networks.join(format!("10-{network}.conflist"));
        replace(
            &conflist,
            conflist_of(network, &node::pod_range(member.number))
                .to_string()
                .as_bytes(),
        )?;
    }
    // Without a name server in it containerd would give pods the machine's own file.
    replace(
        &state.conf("resolv.conf"),
        b"nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
    )?;
    replace(&state.conf("containerd.toml"), containerd(runc).as_bytes())?;
    replace(
        &state.conf("kubelet.json"),
        kubelet(state, facts.layout, options).to_string().as_bytes(),
    )?;
    replace(&state.conf("audit.json"), audit().to_string().as_bytes())?;
    replace(
        &state.conf("kube-proxy.json"),
        kube_proxy(state, member.name()).to_string().as_bytes(),
    )
}

fn conflist_of(network: Network, pods: &str) -> Value {
    let mut plugin = json!({
        "type": network.to_string(),
        "ipMasq": false,
        "ipam": {
            "type": "host-local",
            "ranges": [[{ "subnet": pods }]],
            "routes": [{ "dst": "0.0.0.0/0" }],
            "dataDir": "/run/cni-ipam",
        },
    });
    if network == Network::Bridge {
        plugin["bridge"] = json!("cni0");
        plugin["isGateway"] = json!(true);
        plugin["hairpinMode"] = json!(true);
    }
    json!({ "cniVersion": "1.0.0", "name": "pods", "plugins": [plugin] })
}

/// Version 2 of the format is read by containerd 1.x and migrated by 2.x. A lower OOM score than its own requires
/// CAP_SYS_RESOURCE, which is not available everywhere.
fn containerd(runc: &Path) -> String {
    let cri = "plugins.\"io.containerd.grpc.v1.cri\"";
    format!(
        "version = 2\n\
         root = \"/var/lib/containerd\"\n\
         state = \"/run/containerd\"\n\
         [grpc]\n\
         address = \"/run/containerd/containerd.sock\"\n\
         [{cri}]\n\
         sandbox_image = \"{pause}\"\n\
         restrict_oom_score_adj = true\n\
         [{cri}.containerd]\n\
         snapshotter = \"overlayfs\"\n\
         default_runtime_name = \"runc\"\n\
         [{cri}.containerd.runtimes.runc]\n\
         runtime_type = \"io.containerd.runc.v2\"\n\
         [{cri}.containerd.runtimes.runc.options]\n\
         SystemdCgroup = false\n\
         BinaryName = \"{runc}\"\n\
         [{cri}.cni]\n\
         bin_dir = \"/opt/cni/bin\"\n\
         conf_dir = \"/etc/cni/net.d\"\n",
        pause = catalog::PAUSE,
        runc = runc.display(),
    )
}

fn kubelet(state: &State, layout: Layout, options: &Map<String, Value>) -> Value {
    let pki = |name: &str| state.pki(name);
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true, "cacheTTL": "10s" },
            "x509": { "clientCAFile": pki("ca.crt") },
        },
        "authorization": { "mode": "Webhook", "webhook": { "cacheAuthorizedTTL": "10s", "cacheUnauthorizedTTL": "5s" } },
        "tlsCertFile": pki("kubelet-server.crt"),
        "tlsPrivateKeyFile": pki("kubelet-server.key"),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        // There is no systemd in the node.
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": layout == Layout::V2,
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "resolvConf": state.conf("resolv.conf"),
        "makeIPTablesUtilChains": false,
        // A test machine may be nearly full, which must cause no eviction and no garbage collection.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%",
            "imagefs.inodesFree": "1%",
        },
    });
    if let Some(fields) = config.as_object_mut() {
        fields.extend(options.clone());
    }
    config
}

/// The conntrack settings do not change sysctls, which a network namespace may not write.
fn kube_proxy(state: &State, node: &str) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node,
        "clientConnection": { "kubeconfig": state.kubeconfig("kube-proxy") },
        "clusterCIDR": CLUSTER_PODS,
        "oomScoreAdj": 0,
        "conntrack": { "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s" },
        "nodePortAddresses": ["primary"],
    })
}

/// Logs only the requests of service accounts, without the many requests of the system's own accounts.
fn audit() -> Value {
    let system = [
        "system:serviceaccounts:kube-system",
        "system:serviceaccounts:istio-system",
    ];
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            { "level": "None", "userGroups": system },
            { "level": "Metadata", "userGroups": ["system:serviceaccounts"] },
            { "level": "None" },
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_replace_fields_of_the_kubelet() {
        let state = State::new("/state".into());
        let options = json!({ "maxPods": 300, "failSwapOn": true });
        let config = kubelet(&state, Layout::Hybrid, options.as_object().unwrap());
        assert_eq!(
            (&config["maxPods"], &config["failSwapOn"]),
            (&json!(300), &json!(true))
        );
        assert_eq!(
            config["authentication"]["anonymous"]["enabled"],
            json!(false)
        );
        assert_eq!(config["failCgroupV1"], json!(false));
        assert_eq!(
            kubelet(&state, Layout::V2, &Map::new())["failCgroupV1"],
            json!(true)
        );
    }

    #[test]
    fn containerd_config_names_the_runtime_and_the_pause_image() {
        let text = containerd(Path::new("/somewhere/runc"));
        assert!(text.contains("BinaryName = \"/somewhere/runc\"\n"));
        assert!(text.contains("sandbox_image = \"usher.test/pause:1\"\n"));
    }
}
