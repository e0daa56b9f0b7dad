//! The packages in the programs, as a [CycloneDX 1.5](https://cyclonedx.org/docs/1.5/json/) document.
//!
//! The document has the packages that cargo links into the programs, not those that only build or test them. Licences
//! are from cargo's metadata, hashes from the lock file. Without a time and a random serial number, the document is the
//! same everywhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::Result;
use cargo_metadata::{DependencyKind, Metadata, Node, NodeDep, Package};
use serde_json::{Value, json};

use super::{VERSION, build::Architecture};
use crate::{
    file,
    release::PROGRAMS,
    workspace::{self, PackageId as Id, metadata},
};

pub(super) fn write(path: &Path) -> Result<()> {
    file::write(path, format!("{:#}\n", document()?))
}

fn document() -> Result<Value> {
    let (linked, metadata) = linked()?;
    let hashes = checksums(&file::read("Cargo.lock")?);
    let resolved = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let nodes: BTreeMap<Id, &Node> = resolved
        .map(|node| (id_of(&metadata[&node.id]), node))
        .filter(|(id, _)| linked.contains(id))
        .collect();
    let components: Vec<Value> = nodes
        .iter()
        .map(|(id, node)| component(id, &metadata[&node.id], hashes.get(id)))
        .collect();
    let released =
        PROGRAMS.map(|(_, package)| reference(&(package.to_owned(), VERSION.to_owned())));
    let mut edges = vec![json!({ "ref": "usher", "dependsOn": released })];
    edges.extend(nodes.iter().map(|(id, node)| {
        let needs = dependencies(&metadata, node).filter(|id| linked.contains(id));
        let needs: BTreeSet<String> = needs.map(|id| reference(&id)).collect();
        json!({ "ref": reference(id), "dependsOn": needs })
    }));
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
        "dependencies": edges,
    }))
}

/// The packages that cargo links for any architecture, and all metadata.
fn linked() -> Result<(BTreeSet<Id>, Metadata)> {
    let programs = PROGRAMS.map(|(_, package)| package);
    let mut linked = BTreeSet::new();
    for architecture in Architecture::ALL {
        linked.extend(workspace::linked(&programs, architecture.target())?);
    }
    Ok((linked, metadata()?))
}

/// The packages in the programs.
pub(in crate::release) fn linked_packages() -> Result<Vec<Package>> {
    let (linked, metadata) = linked()?;
    let mut packages = metadata.packages;
    packages.retain(|package| linked.contains(&id_of(package)));
    Ok(packages)
}

/// SHA-256 of each package of a registry, from a lock file. cargo writes a narrow form of TOML: a table for each
/// package, a key on each line.
fn checksums(lock: &str) -> BTreeMap<Id, String> {
    let entry = |text: &str| {
        let value = |key: &str| {
            let start = format!("{key} = \"");
            text.lines()
                .find_map(|line| line.strip_prefix(&start)?.strip_suffix('"'))
                .map(str::to_owned)
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    lock.split("[[package]]")
        .skip(1)
        .filter_map(entry)
        .collect()
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
        // The old form of a licence expression has a slash for OR.
        let expression = licence.replace('/', " OR ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    if let Some(hash) = hash {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": hash }]);
    }
    component
}

/// The packages that a package needs, without those for its tests and its build.
fn dependencies(metadata: &Metadata, node: &Node) -> impl Iterator<Item = Id> {
    let is_normal = |dependency: &&NodeDep| {
        let mut kinds = dependency.dep_kinds.iter();
        kinds.any(|info| info.kind == DependencyKind::Normal)
    };
    let normal = node.deps.iter().filter(is_normal);
    normal.map(|dependency| id_of(&metadata[&dependency.pkg]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_linked_packages_are_components() {
        let document = document().unwrap();
        let components = document["components"].as_array().unwrap();
        let names: BTreeSet<&str> = components
            .iter()
            .filter_map(|component| component["name"].as_str())
            .collect();
        for name in ["usher-core", "usher-cni", "kube", "ring", "rustls", "nix"] {
            assert!(names.contains(name), "{name}");
        }
        // Packages of tests, tools and the compiler.
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
    fn document_is_reproducible_and_its_references_exist() {
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

    #[test]
    fn only_packages_of_a_registry_have_a_hash() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0\"\nchecksum = \"00ff\"\n\
                    dependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\n";
        let found = checksums(lock);
        assert_eq!(found.len(), 1);
        assert_eq!(found[&("a".to_owned(), "1.0".to_owned())], "00ff");
    }
}
