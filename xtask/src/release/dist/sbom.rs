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
use cargo_metadata::{Metadata, Package};
use serde_json::{Value, json};
use usher_cluster::progress::output;

use super::{VERSION, build::Architecture};
use crate::{
    file,
    release::PROGRAMS,
    workspace::{cargo, dependencies, metadata},
};

/// Name and version.
type Id = (String, String);

pub(super) fn write(path: &Path) -> Result<()> {
    file::write_json(path, &document()?)
}

fn document() -> Result<Value> {
    let (linked, metadata) = linked()?;
    let hashes = checksums(&file::read("Cargo.lock")?);
    let packages: BTreeMap<Id, &Package> = metadata
        .packages
        .iter()
        .map(|package| (id_of(package), package))
        .filter(|(id, _)| linked.contains(id))
        .collect();
    let components: Vec<Value> = packages
        .iter()
        .map(|(id, package)| component(id, package, hashes.get(id)))
        .collect();
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
        "dependencies": edges(&metadata, &packages),
    }))
}

/// The packages that cargo links for any architecture, and all metadata.
fn linked() -> Result<(BTreeSet<Id>, Metadata)> {
    let mut linked = BTreeSet::new();
    for architecture in Architecture::ALL {
        linked.extend(linked_for(architecture.target())?);
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

/// The packages that cargo links for a target. Procedural macros are excluded: they run in the compiler.
fn linked_for(target: &str) -> Result<BTreeSet<Id>> {
    let mut tree = cargo(["tree", "--locked", "--target", target, "--prefix", "none"]);
    tree.args(["--edges", "normal,no-proc-macro", "--format", "{p}"]);
    tree.args(
        PROGRAMS
            .iter()
            .flat_map(|(_, package)| ["--package", package]),
    );
    let id = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        Some((name.to_owned(), version.strip_prefix('v')?.to_owned()))
    };
    Ok(output(&mut tree)?.lines().filter_map(id).collect())
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

/// The dependencies between linked packages.
fn edges(metadata: &Metadata, packages: &BTreeMap<Id, &Package>) -> Vec<Value> {
    let released =
        PROGRAMS.map(|(_, package)| reference(&(package.to_owned(), VERSION.to_owned())));
    let mut below: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in metadata.resolve.iter().flat_map(|resolve| &resolve.nodes) {
        let id = id_of(&metadata[&node.id]);
        if !packages.contains_key(&id) {
            continue;
        }
        let linked = dependencies(metadata, node)
            .map(id_of)
            .filter(|id| packages.contains_key(id))
            .map(|id| reference(&id));
        below.entry(reference(&id)).or_default().extend(linked);
    }
    let edge = |(id, needs): (&String, &BTreeSet<String>)| json!({ "ref": id, "dependsOn": needs });
    [json!({ "ref": "usher", "dependsOn": released })]
        .into_iter()
        .chain(below.iter().map(edge))
        .collect()
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
