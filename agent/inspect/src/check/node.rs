//! Where the node has its cgroups, its bundles and usher's own files.

use super::{Category, Check, Question};

const fn question(id: &'static str, title: &'static str, why: &'static str) -> Question {
    Question {
        id,
        category: Category::Node,
        title,
        why,
    }
}

const CGROUPS: Question = question(
    "node-cgroups",
    "the cgroups of pods are found",
    "pods and containers are seen by their cgroups, and by nothing else",
);
const BUNDLES: Question = question(
    "node-bundles",
    "containerd's bundles are seen",
    "pods that ask for usher.dev/hold: start have their connections held instead",
);
const RUN_DIR: Question = question(
    "node-run-directory",
    "the run directory can be written",
    "the CNI plugin cannot ask the agent, and a restart forgets what was known",
);
const CONFIG: Question = question(
    "node-configuration",
    "the configuration file is good",
    "a broken file changes nothing: the last good one counts, and without one usher observes only",
);

/// All of them.
pub const ALL: &[&Question] = &[&CGROUPS, &BUNDLES, &RUN_DIR, &CONFIG];

/// The hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Version 2.
    Unified,
    /// Version 1, alone or beside version 2.
    Legacy,
}

/// Where pods' cgroups are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroups {
    /// The directory that has them, or is to have them.
    pub root: String,
    /// Of which version it is.
    pub layout: Layout,
    /// The name of the directory of all pods, where there is one.
    pub kubepods: Option<String>,
    /// Pods that have one.
    pub pods: u64,
}

/// The bundles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bundles {
    /// No directory is given: starts are not to be held.
    Off,
    /// They are seen, and there are so many.
    Seen(u64),
    /// The directory is not there yet.
    Absent,
    /// They are not.
    Hidden(String),
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Cgroups, or why they are not seen.
    pub cgroups: Result<Cgroups, String>,
    /// The directory that was given for bundles.
    pub bundle_dir: String,
    /// What is there.
    pub bundles: Bundles,
    /// The run directory.
    pub run_dir: String,
    /// Whether it can be written.
    pub run_dir_writable: Result<(), String>,
    /// The configuration file: how many recipes of its own it has, None where there is no file, or what is wrong.
    pub config: Result<Option<usize>, String>,
    /// Its path.
    pub config_path: String,
}

/// Judges it.
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
                "mount the host's /sys/fs/cgroup, as the chart does (USHER_CGROUP_ROOT=/host/sys/fs/cgroup); with a --cgroup-root of the kubelet, name that cgroup",
            );
        }
    };
    let version = match cgroups.layout {
        Layout::Unified => "version 2",
        Layout::Legacy => "version 1",
    };
    let Some(kubepods) = &cgroups.kubepods else {
        return CGROUPS.warning(
            format!("{version} at {}, and no kubepods in it", cgroups.root),
            "start a kubelet here; where it runs with --cgroup-root, set USHER_CGROUP_ROOT to that cgroup",
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
        Bundles::Off => BUNDLES.skipped("no --bundle-dir is given, so no start is held (chart: runtime.enabled)"),
        Bundles::Seen(count) => BUNDLES.ok(format!("{count} in {dir}")),
        Bundles::Absent => BUNDLES.warning(
            format!("there is no {dir}"),
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
        Ok(None) => CONFIG.ok(format!("there is no {path}: the defaults count")),
        Ok(Some(0)) => CONFIG.ok(path),
        Ok(Some(recipes)) => CONFIG.ok(format!("{path}, {recipes} recipes of its own")),
        Err(error) => CONFIG.failed(
            error,
            "correct that line (value config of the chart; docs/configuration.md); usher config shows what counts meanwhile",
        ),
    }
}
