//! The cgroups and bundles of the node, and usher's own files.

use super::{Check, Question};

questions! {
    Node {
        CGROUPS = "node-cgroups",
            "the cgroups of pods are found",
            "usher detects pods and containers by their cgroups only";
        BUNDLES = "node-bundles",
            "the bundles of containerd are visible",
            "pods with usher.dev/hold: start have only their connections held";
        RUN_DIR = "node-run-directory",
            "the run directory is writable",
            "the CNI plugin cannot reach the agent, and a restarted agent loses its records";
        CONFIG = "node-configuration",
            "the configuration file is valid",
            "with an invalid file the last valid one applies, and without any file usher only observes";
    }
}

/// The version of the cgroup hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    Unified,
    /// Version 1, alone or with version 2.
    Legacy,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroups {
    pub root: String,
    pub layout: Layout,
    /// The name of the cgroup of all pods.
    pub kubepods: Option<String>,
    pub pods: u64,
}

/// The bundles of containerd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bundles {
    /// No directory is set, so no start is held.
    Off,
    Seen(u64),
    Absent,
    /// The bundles are not visible, for this reason.
    Hidden(String),
}

/// The facts about the node.
#[derive(Debug, Clone)]
pub struct Found {
    pub cgroups: Result<Cgroups, String>,
    pub bundle_dir: String,
    pub bundles: Bundles,
    pub run_dir: String,
    pub run_dir_writable: Result<(), String>,
    /// The number of custom recipes in the configuration file; None without a file.
    pub config: Result<Option<usize>, String>,
    pub config_path: String,
}

pub fn judge(found: &Found) -> Vec<Check> {
    vec![
        cgroups(found),
        bundles(found),
        run_dir(found),
        config(found),
    ]
}

fn cgroups(found: &Found) -> Check {
    let cgroups = match &found.cgroups {
        Ok(cgroups) => cgroups,
        Err(error) => {
            return CGROUPS.failed(
                error,
                "mount the host's /sys/fs/cgroup, as the chart does (USHER_CGROUP_ROOT=/host/sys/fs/cgroup); for a kubelet with --cgroup-root, set that cgroup",
            );
        }
    };
    let version = match cgroups.layout {
        Layout::Unified => "version 2",
        Layout::Legacy => "version 1",
    };
    let Some(kubepods) = &cgroups.kubepods else {
        return CGROUPS.warning(
            format!("{version} at {}, without kubepods", cgroups.root),
            "start the kubelet; for one with --cgroup-root, set USHER_CGROUP_ROOT to that cgroup",
        );
    };
    let driver = if kubepods.ends_with(".slice") {
        "systemd"
    } else {
        "cgroupfs"
    };
    CGROUPS.ok(format!(
        "{version}, driver {driver}, {} pods below {}/{kubepods}",
        cgroups.pods, cgroups.root
    ))
}

fn bundles(found: &Found) -> Check {
    let dir = &found.bundle_dir;
    match &found.bundles {
        Bundles::Off => BUNDLES.skipped("no --bundle-dir, so no start is held (chart: runtime.enabled)"),
        Bundles::Seen(count) => BUNDLES.ok(format!("{count} in {dir}")),
        Bundles::Absent => BUNDLES.warning(
            format!("no directory {dir}"),
            "helm upgrade usher ... --set runtime.dir=DIR with containerd's state directory (grep ^state /etc/containerd/config.toml); with CRI-O --set runtime.enabled=false",
        ),
        Bundles::Hidden(error) => BUNDLES.warning(
            error,
            format!("mount {dir} with mountPropagation: HostToContainer, as the chart does (runtime.enabled=true)"),
        ),
    }
}

fn run_dir(found: &Found) -> Check {
    match &found.run_dir_writable {
        Ok(()) => RUN_DIR.ok(&found.run_dir),
        Err(error) => RUN_DIR.failed(
            format!("{}: {error}", found.run_dir),
            format!(
                "mount the host's /run/usher there, writable for root: mkdir -p {0} && chown root:root {0}",
                found.run_dir
            ),
        ),
    }
}

fn config(found: &Found) -> Check {
    let path = &found.config_path;
    match &found.config {
        Ok(None) => CONFIG.ok(format!("no file {path}: the defaults apply")),
        Ok(Some(0)) => CONFIG.ok(path),
        Ok(Some(recipes)) => CONFIG.ok(format!("{path}, {recipes} own recipes")),
        Err(error) => CONFIG.failed(
            error,
            "correct that line (value config of the chart; docs/configuration.md); usher config prints the configuration that applies meanwhile",
        ),
    }
}
