//! The sidecars of the node's pods, and the kubelet's version.

use std::collections::{BTreeMap, BTreeSet};

use usher_core::{
    pod::spec::Pod,
    recipe::{Recipe, Version},
};

use super::{Check, Question};

questions! {
    Cluster {
        SIDECARS = "cluster-sidecars",
            "recipes recognize the sidecars",
            "a sidecar without a recipe counts as an app, so usher does nothing for its pod";
        NATIVE = "cluster-native-sidecars",
            "the cluster has native sidecars where they suffice",
            "the kubelet starts and ends native sidecars in order; usher leaves them alone";
    }
}

/// The first kubelet version that enables native sidecars by default.
const NATIVE_SINCE: Version = Version {
    major: 1,
    minor: 29,
};

/// The facts about the node's pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The number of pods with a sidecar of each recipe.
    pub recipes: BTreeMap<String, usize>,
    /// The number of pods with native sidecars.
    pub native: usize,
    pub pods: usize,
    pub kubelet_version: Option<String>,
}

impl Found {
    pub fn of(pods: &[Pod], recipes: &[Recipe], kubelet_version: Option<String>) -> Self {
        let mut found = Self {
            pods: pods.len(),
            kubelet_version,
            ..Self::default()
        };
        for pod in pods {
            found.native += usize::from(!pod.native_sidecars.is_empty());
            let names: BTreeSet<&String> = pod
                .containers
                .iter()
                .filter_map(|container| recipes.iter().find(|one| one.recognizes(pod, container)))
                .map(|recipe| &recipe.name)
                .collect();
            for name in names {
                *found.recipes.entry(name.clone()).or_default() += 1;
            }
        }
        found
    }
}

/// Judges the facts; None if the kubelet lists no pods.
pub fn judge(found: Option<&Found>) -> Vec<Check> {
    let Some(found) = found else {
        let message = "the kubelet lists no pods";
        return ALL.iter().map(|one| one.skipped(message)).collect();
    };
    let pods = found.pods;
    let sidecars = if found.recipes.is_empty() {
        SIDECARS.skipped(format!("none in {pods} pods of this node"))
    } else {
        let seen = found.recipes.iter();
        let seen: Vec<String> = seen
            .map(|(name, pods)| format!("{name} in {pods}"))
            .collect();
        SIDECARS.ok(format!("{} of {pods} pods", seen.join(", ")))
    };
    vec![sidecars, native(found)]
}

fn native(found: &Found) -> Check {
    let ordinary: usize = found.recipes.values().sum();
    let Some(version) = &found.kubelet_version else {
        return match found.native {
            0 => NATIVE.skipped("no pod has one, and the kubelet's version is unknown"),
            pods => NATIVE.ok(format!("{pods} pods have native sidecars")),
        };
    };
    let has_them = version
        .parse()
        .is_ok_and(|version: Version| version >= NATIVE_SINCE);
    match (has_them, ordinary) {
        (true, 0) => NATIVE.ok(format!("kubelet {version}, {} pods have native sidecars", found.native)),
        (true, pods) => NATIVE.ok(format!(
            "kubelet {version} supports them; {pods} pods have regular sidecars, which usher manages, and {} have native ones",
            found.native
        )),
        (false, _) => NATIVE.ok(format!("kubelet {version} has no native sidecars; usher replaces them")),
    }
}
