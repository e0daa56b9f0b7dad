//! What is in the shipped programs, as a [CycloneDX 1.5](https://cyclonedx.org/docs/1.5/json/) document.
//!
//! Which packages: what cargo links into the programs for the targets that are shipped, without what only builds or
//! tests them. Their licences come from cargo's metadata, their hashes from the lock file. The document has neither a
//! time nor a random serial number, so that it is the same wherever it is made.

mod lock;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use serde_json::{Value, json};
use usher_cluster::progress::output;

use super::{VERSION, build::Architecture};
use crate::workspace::{cargo, root};

/// The packages that have the programs.
const SHIPPED: [&str; 2] = ["usher-agent", "usher-cni"];

/// Name and version.
type Id = (String, String);

pub(super) fn write(path: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(&document()?).context("write the list of parts")?;
    fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))
}

fn document() -> Result<Value> {
    let mut linked = BTreeSet::new();
    for architecture in Architecture::ALL {
        linked.extend(linked_for(architecture.target())?);
    }
    let metadata = MetadataCommand::new()
        .current_dir(root())
        .other_options(["--locked".to_owned()])
        .exec()
        .context("ask cargo for the packages")?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("read Cargo.lock")?;
    let hashes = lock::checksums(&lock);
    let packages: BTreeMap<Id, &Package> = metadata
        .packages
        .iter()
        .map(|package| (id_of(package), package))
        .filter(|(id, _)| linked.contains(id))
        .collect();
    let component = |(id, package): (&Id, &&Package)| component(id, package, hashes.get(id));
    let components: Vec<Value> = packages.iter().map(component).collect();
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application", "bom-ref": "usher", "name": "usher", "version": VERSION,
                "licenses": [{ "expression": env!("CARGO_PKG_LICENSE") }],
            },
        },
        "components": components,
        "dependencies": dependencies(&metadata, &packages),
    }))
}

/// What cargo links for a target: not procedural macros, which run in the compiler.
fn linked_for(target: &str) -> Result<BTreeSet<Id>> {
    let mut tree = cargo(["tree", "--locked", "--target", target, "--prefix", "none"]);
    tree.args(["--edges", "normal,no-proc-macro", "--format", "{p}"]);
    tree.args(SHIPPED.iter().flat_map(|package| ["--package", package]));
    let text = output(&mut tree)?;
    let id = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        Some((name.to_owned(), version.strip_prefix('v')?.to_owned()))
    };
    Ok(text.lines().filter_map(id).collect())
}

fn id_of(package: &Package) -> Id {
    (package.name.to_string(), package.version.to_string())
}

fn reference((name, version): &Id) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn component(id: &Id, package: &Package, hash: Option<&String>) -> Value {
    let (name, version) = id;
    let mut component = json!({
        "type": "library", "bom-ref": reference(id), "name": name, "version": version,
        "purl": reference(id),
    });
    if let Some(licence) = &package.license {
        // Before there were expressions, a stroke was an or.
        let expression = licence.replace('/', " OR ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    if let Some(hash) = hash {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": hash }]);
    }
    component
}

/// Which needs which, of those that are linked.
fn dependencies(metadata: &Metadata, packages: &BTreeMap<Id, &Package>) -> Vec<Value> {
    let shipped = packages
        .keys()
        .filter(|(name, _)| SHIPPED.contains(&name.as_str()));
    let shipped: Vec<String> = shipped.map(reference).collect();
    let mut all = vec![json!({ "ref": "usher", "dependsOn": shipped })];
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let mut below: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in nodes {
        let id = id_of(&metadata[&node.id]);
        if !packages.contains_key(&id) {
            continue;
        }
        let needs = node.deps.iter().filter(|dependency| {
            let kinds = &dependency.dep_kinds;
            kinds.iter().any(|info| info.kind == DependencyKind::Normal)
        });
        let needs = needs.map(|dependency| id_of(&metadata[&dependency.pkg]));
        let linked = needs.filter(|id| packages.contains_key(id));
        let entry = below.entry(reference(&id)).or_default();
        entry.extend(linked.map(|id| reference(&id)));
    }
    let edges = below.iter();
    all.extend(edges.map(|(id, needs)| json!({ "ref": id, "dependsOn": needs })));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_and_nothing_else() {
        let document = document().unwrap();
        let components = document["components"].as_array().unwrap();
        let names: BTreeSet<&str> = components
            .iter()
            .filter_map(|component| component["name"].as_str())
            .collect();
        for name in ["usher-core", "usher-cni", "kube", "ring", "rustls", "nix"] {
            assert!(names.contains(name), "{name}");
        }
        // Tests, tools, and what runs in the compiler.
        for name in ["proptest", "tempfile", "xtask", "serde_derive", "cc"] {
            assert!(!names.contains(name), "{name}");
        }
        for component in components {
            let is_own = component["name"].as_str().unwrap().starts_with("usher");
            assert!(component["licenses"].is_array(), "{component}");
            assert_eq!(component["hashes"].is_array(), !is_own, "{component}");
        }
    }

    #[test]
    fn same_each_time_and_every_reference_leads_somewhere() {
        let document = document().unwrap();
        assert_eq!(document, super::document().unwrap());
        let components = document["components"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut known: BTreeSet<String> = components
            .iter()
            .map(|component| text(&component["bom-ref"]))
            .collect();
        assert_eq!(known.len(), components.len());
        known.insert(text(&document["metadata"]["component"]["bom-ref"]));
        let dependencies = document["dependencies"].as_array().unwrap();
        assert_eq!(dependencies.len(), known.len());
        for dependency in dependencies {
            assert!(known.contains(&text(&dependency["ref"])));
            let needs = dependency["dependsOn"].as_array().unwrap();
            let all = needs.iter().all(|id| known.contains(&text(id)));
            assert!(all, "{dependency}");
        }
    }
}
