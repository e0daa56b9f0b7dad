//! The steps that need a cluster.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use usher_cluster::{
    Cluster, Config, Layout,
    programs::{Containerd, Kubernetes, Sidecars},
};

use super::{LIMIT, SELECTION, Scope, TARGETS, background::Background, rerun, test_command};
use crate::{cluster, step::Steps, supervisor, workspace::run_within};

const NAME: &str = "test";
/// The layouts to test. The first runs all tests. Every machine supports v2.
pub(super) fn layouts(wanted: Option<Layout>, all: bool) -> Vec<Layout> {
    match wanted {
        Some(layout) => vec![layout],
        None if all && machine_has_cgroup_v1() => vec![Layout::V2, Layout::Hybrid],
        None => vec![Layout::V2],
    }
}

/// The clusters that the steps may leave behind.
pub(super) fn names(all: bool) -> Vec<&'static str> {
    let smoke = SELECTION.cells("smoke").filter(|_| all);
    [NAME].into_iter().chain(smoke).collect()
}

/// Runs the tests on each layout. Returns the image of the agent.
pub(super) fn steps(
    steps: &mut Steps,
    scope: Scope,
    layouts: &[Layout],
    background: &Background,
) -> Option<PathBuf> {
    let mut image = None;
    steps.run("wait for the image of the agent", || {
        image = Some(background.image()?);
        Ok(())
    });
    let image = image?;
    let mut skipped = (!scope.all).then_some("slow");
    for layout in layouts {
        let title = format!("cluster tests, cgroup layout {layout}");
        // Two runs cover both versions of containerd.
        let containerd = match layout {
            Layout::Hybrid => Containerd::Debian,
            Layout::V2 => Containerd::Two,
        };
        let skips = skipped.iter().flat_map(|kind| SELECTION.cells(kind));
        let skips = skips.flat_map(|name| ["--skip", name]);
        let skips: Vec<&str> = skips.collect();
        rerun::step(steps, &title, || {
            let config = Config {
                cgroups: Some(*layout),
                containerd: Some(containerd),
                sidecars: Sidecars::All,
                ..Config::from_env(NAME)?
            };
            test_on(config, TARGETS[0], &image, &skips, scope)
        });
        skipped = Some("same-everywhere");
    }
    Some(image)
}

/// Runs clusters with tests that measure no time.
pub(super) fn more_steps(steps: &mut Steps, scope: Scope, image: &Path) {
    rerun::step(steps, "two nodes", || {
        let config = Config {
            nodes: Some(2),
            sidecars: Sidecars::Mesh,
            ..Config::from_env(NAME)?
        };
        test_on(config, TARGETS[1], image, &[], scope)
    });
    let old = Kubernetes::V1_32;
    rerun::step(steps, &format!("Kubernetes {old}"), || {
        let config = Config {
            kubernetes: Some(old),
            containerd: Some(Containerd::Two),
            ..Config::from_env(NAME)?
        };
        let filters: Vec<&str> = SELECTION.cells("old-kubernetes").collect();
        test_on(config, TARGETS[0], image, &filters, scope)
    });
    if machine_has_cgroup_v1() {
        steps.run("the cluster itself", || {
            let smoke: Vec<&str> = SELECTION.cells("smoke").collect();
            supervisor::end(&smoke)?;
            let mut tests = test_command(scope);
            let tested = run_within(
                LIMIT,
                tests.args(["--test", "smoke", "--", "--ignored", "--test-threads=1"]),
            );
            tested.and(supervisor::end(&smoke))
        });
    } else {
        // Not an error: otherwise every pipeline on such a machine would fail.
        steps.skip(
            "the cluster itself",
            "this machine has cgroup v2 only",
            false,
        );
    }
}

fn test_on(
    config: Config,
    target: &str,
    image: &Path,
    filters: &[&str],
    scope: Scope,
) -> Result<Vec<String>> {
    // An earlier run may have left a cluster.
    supervisor::end(&[NAME])?;
    let cluster = Cluster::with(config)?;
    let tested = cluster.up().and_then(|()| {
        cluster.import_image(image)?;
        let command = || {
            let mut tests = test_command(scope);
            tests.args(["--test", target]).env(cluster::VARIABLE, NAME);
            tests
        };
        rerun::run(command, filters)
    });
    let ended = supervisor::end(&[NAME]);
    tested.and_then(|flaky| ended.map(|()| flaky))
}

fn machine_has_cgroup_v1() -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.contains(" - cgroup ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::workspace::root;

    #[test]
    fn all_clusters_of_the_smoke_test_are_ended() {
        let folder = root().join("tests/cluster/tests");
        let texts = ["smoke.rs", "smoke/nodes.rs"]
            .map(|file| fs::read_to_string(folder.join(file)).unwrap());
        let named = texts.iter().flat_map(|text| text.split('"'));
        let named: BTreeSet<&str> = named.filter(|word| word.starts_with("smoke-")).collect();
        assert_eq!(named, SELECTION.cells("smoke").collect());
    }

    #[test]
    fn one_layout_is_tested_unless_all_are() {
        assert_eq!(layouts(None, false), [Layout::V2]);
        assert_eq!(layouts(Some(Layout::Hybrid), true), [Layout::Hybrid]);
        assert_eq!(layouts(None, true)[0], Layout::V2);
        assert_eq!(names(false), [NAME]);
        assert_eq!(names(true).len(), 1 + SELECTION.cells("smoke").count());
    }
}
