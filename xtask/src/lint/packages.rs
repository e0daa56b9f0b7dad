//! Checks dependencies between packages in the graph that cargo resolved.

use std::collections::BTreeSet;

use anyhow::Result;

use super::{RULES, finding::Finding};
use crate::workspace::linked;

pub(super) fn check() -> Result<Vec<Finding>> {
    let arrows = RULES.rows("arrow");
    let found: Vec<_> = arrows.map(broken).collect::<Result<_>>()?;
    Ok(found.concat())
}

/// The forbidden dependencies on any target, without those of tests and of builds.
fn broken([package, without, why]: [&'static str; 3]) -> Result<Vec<Finding>> {
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
        let arrow = ["usher-agent", "usher-cli libc", "of a test"];
        let found = broken(arrow).unwrap();
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
