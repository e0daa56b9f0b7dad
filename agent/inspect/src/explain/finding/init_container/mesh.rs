//! The settings of each mesh that give an init container a network.

use crate::explain::{Case, facts::Container};

/// Annotations of a pod that a mesh reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mesh {
    /// The recipe of its proxy.
    recipe: &'static str,
    /// The name of its proxy, also as a native sidecar.
    proxy: &'static str,
    /// The annotation that makes the proxy a native sidecar, if the mesh has one.
    pub(super) native: Option<&'static str>,
    /// Excludes outbound ports from the capture.
    pub(super) exclude_ports: &'static str,
}

const MESHES: [Mesh; 7] = [
    Mesh {
        recipe: "istio",
        proxy: "istio-proxy",
        native: Some("sidecar.istio.io/nativeSidecar"),
        exclude_ports: "traffic.sidecar.istio.io/excludeOutboundPorts",
    },
    Mesh {
        recipe: "linkerd",
        proxy: "linkerd-proxy",
        native: Some("config.beta.linkerd.io/proxy-enable-native-sidecar"),
        exclude_ports: "config.linkerd.io/skip-outbound-ports",
    },
    Mesh {
        recipe: "kuma",
        proxy: "kuma-sidecar",
        native: None,
        exclude_ports: "traffic.kuma.io/exclude-outbound-ports",
    },
    Mesh {
        recipe: "consul",
        proxy: "consul-dataplane",
        native: Some("consul.hashicorp.com/enable-consul-dataplane-as-sidecar"),
        exclude_ports: "consul.hashicorp.com/transparent-proxy-exclude-outbound-ports",
    },
    Mesh {
        recipe: "consul-envoy",
        proxy: "envoy-sidecar",
        native: None,
        exclude_ports: "consul.hashicorp.com/transparent-proxy-exclude-outbound-ports",
    },
    Mesh {
        recipe: "osm",
        proxy: "envoy",
        native: None,
        exclude_ports: "openservicemesh.io/outbound-port-exclusion-list",
    },
    Mesh {
        recipe: "app-mesh",
        proxy: "envoy",
        native: None,
        exclude_ports: "appmesh.k8s.aws/egressIgnoredPorts",
    },
];

/// Annotations that exclude other connections than those to a port.
const OTHER_EXCLUSIONS: [&str; 2] = [
    "traffic.sidecar.istio.io/excludeOutboundIPRanges",
    "traffic.kuma.io/exclude-outbound-ips",
];

/// Annotations that exclude connections from the capture.
pub(super) fn exclusions() -> impl Iterator<Item = &'static str> {
    MESHES
        .iter()
        .map(|mesh| mesh.exclude_ports)
        .chain(OTHER_EXCLUSIONS)
}

/// Whether a native sidecar is a mesh's proxy.
pub(super) fn is_proxy(native: &Container) -> bool {
    MESHES.iter().any(|mesh| mesh.proxy == native.name)
}

pub(super) fn of(case: &Case<'_>, proxy: &Container) -> Option<Mesh> {
    let mut sidecars = case.plan.sidecars.iter();
    let recipe = sidecars
        .find(|sidecar| sidecar.name == proxy.name)
        .map(|sidecar| &*sidecar.recipe);
    MESHES.into_iter().find(|mesh| match recipe {
        Some(recipe) => mesh.recipe == recipe,
        None => mesh.proxy == proxy.name,
    })
}
