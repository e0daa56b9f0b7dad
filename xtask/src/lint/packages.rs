//! Checks dependencies between packages in the graph that cargo resolved.

use std::collections::BTreeSet;

use anyhow::Result;

use super::finding::Finding;
use crate::workspace::linked;

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

pub(super) fn check() -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for arrow in &ARROWS {
        found.extend(broken(arrow)?);
    }
    Ok(found)
}

/// The forbidden dependencies on any target, without those of tests and of builds.
fn broken(&(package, without, why): &Arrow) -> Result<Vec<Finding>> {
    let linked = linked(&[package], "all")?;
    let linked: BTreeSet<&str> = linked.iter().map(|(name, _)| name.as_str()).collect();
    let forbidden = without
        .split_whitespace()
        .filter(|name| linked.contains(name));
    let finding = |name| {
        let message = format!(
            "{package} depends on {name}: {why}; `cargo tree --target all --edges normal --package {package} --invert {name}` has the path"
        );
        Finding::error("Cargo.lock", 1, "arrow", message)
    };
    Ok(forbidden.map(finding).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_package_is_found_through_others() {
        // The kernel interfaces use nix, which uses libc.
        let arrow = ("usher-agent", "usher-cli libc", "of a test");
        let found = broken(&arrow).unwrap();
        assert_eq!(found.len(), 1);
        let text = found[0].to_string();
        let expected = "Cargo.lock:1: error: usher-agent depends on libc: of a test";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn arrows_of_this_workspace_hold() {
        assert_eq!(check().unwrap(), []);
    }
}
