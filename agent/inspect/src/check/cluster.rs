//! What the pods of the node and the versions of the cluster tell.

use std::collections::{BTreeMap, BTreeSet};

use usher_core::{pod::spec::Pod, recipe::Recipe};

use super::{Category, Check, Question};

const fn question(id: &'static str, title: &'static str, why: &'static str) -> Question {
    Question {
        id,
        category: Category::Cluster,
        title,
        why,
    }
}

const SIDECARS: Question = question(
    "cluster-sidecars",
    "sidecars of known kinds are seen",
    "a sidecar that no recipe knows is taken for an app: nothing is done for its pod",
);
const NATIVE: Question = question(
    "cluster-native-sidecars",
    "the cluster has native sidecars where they would do",
    "native sidecars end and start in order by themselves; usher leaves them alone",
);

/// All of them.
pub const ALL: &[&Question] = &[&SIDECARS, &NATIVE];

/// The first kubelet that has native sidecars unless somebody switches them off.
const NATIVE_SINCE: (u32, u32) = (1, 29);

/// What is seen on the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Pods that have a sidecar by each recipe, by the recipe's name.
    pub recipes: BTreeMap<String, usize>,
    /// Pods that have native sidecars.
    pub native: usize,
    /// All pods.
    pub pods: usize,
    /// What the kubelet calls its version, where somebody tells.
    pub kubelet_version: Option<String>,
}

impl Found {
    /// What the kubelet's pods tell.
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
                .filter_map(|container| recipes.iter().find(|one| one.recognises(pod, container)))
                .map(|recipe| &recipe.name)
                .collect();
            for name in names {
                *found.recipes.entry(name.clone()).or_default() += 1;
            }
        }
        found
    }
}

/// Judges it; None where the kubelet does not tell.
pub fn judge(found: Option<&Found>) -> Vec<Check> {
    let Some(found) = found else {
        let saw = "the kubelet gives no pods";
        return ALL.iter().map(|one| one.skipped(saw)).collect();
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
            0 => NATIVE.skipped("no pod here has one, and nobody tells the kubelet's version"),
            pods => NATIVE.ok(format!("{pods} pods have native sidecars")),
        };
    };
    let has_them = numbers(version).is_some_and(|version| version >= NATIVE_SINCE);
    match (has_them, ordinary) {
        (true, 0) => NATIVE.ok(format!("kubelet {version}, {} pods have native sidecars", found.native)),
        (true, pods) => NATIVE.ok(format!(
            "kubelet {version} has them; {pods} pods have ordinary ones, which is what usher is for, and {} native ones",
            found.native
        )),
        (false, _) => NATIVE.ok(format!("kubelet {version} has none; usher does what they would")),
    }
}

/// Major and minor of `v1.36.3`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim_start_matches('v').split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
