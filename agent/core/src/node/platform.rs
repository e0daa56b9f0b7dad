//! Detects the platform of a node, by a directory that only its nodes have. Advice contains the name of its preset in
//! the chart (`deploy/chart/files/platforms.yaml`). Presets with the usual paths are not listed.

/// Directories below the host's root, and the preset of nodes that have them.
pub const MARKERS: [(&str, &str); 6] = [
    ("var/lib/rancher/rke2", "rke2"),
    ("var/lib/rancher/k3s", "k3s"),
    ("run/k0s", "k0s"),
    ("var/snap/microk8s", "microk8s"),
    ("home/kubernetes/bin", "gke"),
    ("kind", "kind"),
];

/// The chart's values that fix wrong directories of the runtime.
pub fn remedy(platform: Option<&str>) -> String {
    match platform {
        Some(name) => format!(
            "this node looks like {name}: helm upgrade usher ... --set platform={name}, or set cni.confDir and cni.binDir"
        ),
        None => "helm upgrade usher ... --set platform=NAME, or set cni.confDir and cni.binDir (docs/platforms.md)"
            .to_owned(),
    }
}
