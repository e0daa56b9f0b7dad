//! Checks dependencies between packages in the graph that cargo resolved.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::finding::Finding;
use crate::{
    file,
    workspace::{dependencies, metadata, shown},
};

/// A package, the packages that it must not depend on, directly or indirectly, separated by spaces, and the reason.
type Arrow = (&'static str, &'static str, &'static str);

const IO: &str = "async-io futures hyper kube libc mio nix procfs reqwest rtnetlink rustix smol socket2 tokio \
                  usher-agent usher-sys";
const APART: &str = "the daemon and the CLI are independent";
const ARROWS: [Arrow; 6] = [
    ("usher-core", IO, "core decides and has no IO"),
    ("usher-inspect", IO, "inspect formats and has no IO"),
    (
        "usher-sys",
        "k8s-openapi kube usher-agent",
        "sys knows the kernel and not Kubernetes",
    ),
    ("usher-agent", "usher-cli", APART),
    ("usher-cli", "usher-agent", APART),
    (
        "usher-cni",
        "async-io clap futures hyper k8s-openapi kube procfs smol tokio tracing-subscriber usher-agent usher-sys",
        "every pod waits for the plugin: it is small and blocks",
    ),
];

/// Package names, each with its dependencies. Dependencies of tests and of builds are excluded. Two versions of a
/// package are one node, because the rules are about names.
type Graph = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check() -> Result<Vec<Finding>> {
    let metadata = metadata()?;
    let mut graph = Graph::new();
    for node in metadata.resolve.iter().flat_map(|resolve| &resolve.nodes) {
        graph
            .entry(metadata[&node.id].name.to_string())
            .or_default()
            .extend(dependencies(&metadata, node).map(|package| package.name.to_string()));
    }
    let mut found = Vec::new();
    for arrow in &ARROWS {
        let mut packages = metadata.packages.iter();
        let Some(package) = packages.find(|package| package.name == arrow.0) else {
            continue;
        };
        let manifest = package.manifest_path.as_std_path();
        let text = file::read(manifest)?;
        found.extend(broken(&graph, arrow, &shown(manifest), &text));
    }
    Ok(found)
}

/// The forbidden dependencies, each with the path that leads to it.
fn broken(
    graph: &Graph,
    &(package, without, why): &Arrow,
    manifest: &str,
    text: &str,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([package]);
    let mut pending = vec![vec![package]];
    while let Some(path) = pending.pop() {
        for next in graph.get(path[path.len() - 1]).into_iter().flatten() {
            if !seen.insert(next) {
                continue;
            }
            let longer = [&path[..], &[next.as_str()]].concat();
            if without.split(' ').any(|name| name == next) {
                let line = line_of(text, longer[1]);
                let message = format!("{}: {why}", longer.join(" -> "));
                found.push(Finding::error(manifest, line, "arrow", message));
            } else {
                pending.push(longer);
            }
        }
    }
    found
}

/// The line of a manifest that names a dependency.
fn line_of(manifest: &str, dependency: &str) -> usize {
    let names = |line: &str| {
        line.strip_prefix(dependency)
            .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    manifest
        .lines()
        .position(names)
        .map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_of(edges: &[(&str, &[&str])]) -> Graph {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        edges
            .iter()
            .map(|(name, below)| ((*name).to_owned(), owned(below)))
            .collect()
    }

    #[test]
    fn forbidden_package_is_found_through_others() {
        let graph = made_of(&[
            ("usher-core", &["serde", "time"]),
            ("time", &["libc", "serde"]),
            ("libc", &[]),
            ("serde", &[]),
        ]);
        let manifest = "[dependencies]\nserde.workspace = true\ntime = \"1\"\n";
        let found = broken(&graph, &ARROWS[0], "agent/core/Cargo.toml", manifest);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].to_string(),
            "agent/core/Cargo.toml:3: error: usher-core -> time -> libc: core decides and has no IO [arrow]"
        );
    }

    #[test]
    fn kernel_and_kubernetes_are_apart() {
        let graph = made_of(&[("usher-sys", &["kube", "nix"]), ("nix", &["libc"])]);
        let found = broken(&graph, &ARROWS[2], "agent/sys/Cargo.toml", "kube = \"1\"\n");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].rule), (1, "arrow"));
    }

    #[test]
    fn plugin_is_small() {
        let graph = made_of(&[
            ("usher-cni", &["nix", "usher-core"]),
            ("usher-core", &["serde"]),
            ("nix", &["libc"]),
        ]);
        let manifest = "[dependencies]\nusher-core = \"1\"\nusher-sys = \"1\"\n";
        assert_eq!(
            broken(&graph, &ARROWS[5], "cni-plugin/Cargo.toml", manifest),
            []
        );
        let graph = made_of(&[
            ("usher-cni", &["usher-core", "usher-sys"]),
            ("usher-sys", &["tokio"]),
        ]);
        let found = broken(&graph, &ARROWS[5], "cni-plugin/Cargo.toml", manifest);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].rule), (3, "arrow"));
    }

    #[test]
    fn arrows_of_this_workspace_hold() {
        assert_eq!(check().unwrap(), []);
    }
}
