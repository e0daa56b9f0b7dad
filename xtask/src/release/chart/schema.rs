//! Checks the chart's objects against the types of each version of Kubernetes, with kubeconform.
//!
//! The types are those of client-go, which has the fields of all kinds in one document for server-side apply. Its
//! module has 2.5 MiB for each version; the module with the OpenAPI document has 40 MiB. The document does not list
//! required fields; the test `schema::every_platform_renders_valid_objects` compares with the API server of a cluster.

use std::{
    collections::BTreeSet,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;
use usher_cluster::{
    cache::{self, KeyBuilder},
    programs,
    progress::{output, say},
};

use super::template;
use crate::{
    file,
    workspace::{report, target_dir},
};

/// Minor versions of Kubernetes 1 that the chart is checked for.
const MINORS: std::ops::RangeInclusive<u32> = 27..=36;
/// Values that enable every option.
const EVERYTHING: &str = "deploy/chart/tests/everything.yaml";
/// The first minor version that supports the startup taint. The chart rejects the taint for older versions.
const STARTUP_TAINT: u32 = 30;
/// Kinds of the Prometheus Operator and of OpenShift, which the chart's own tests check.
const OTHERS: &str = "PodMonitor,PrometheusRule,SecurityContextConstraints";
/// Groups of client-go, with their names in apiVersion. For the core group, kubeconform uses the version as the name.
const GROUPS: [(&str, &str); 5] = [
    ("core", "v1"),
    ("apps", "apps"),
    ("batch", "batch"),
    ("rbac", "rbac.authorization.k8s.io"),
    ("admissionregistration", "admissionregistration.k8s.io"),
];

pub(super) fn check(helm: &Path, platforms: &BTreeSet<String>) -> Result<()> {
    let kubeconform = programs::kubeconform()?;
    for minor in MINORS {
        let schemas = schemas(minor)?;
        // Platforms differ in paths, and the types of paths are the same in all versions.
        let is_end = minor == *MINORS.start() || minor == *MINORS.end();
        let platforms: Vec<&str> = if is_end {
            platforms.iter().map(String::as_str).collect()
        } else {
            vec![""]
        };
        for platform in platforms {
            for values in [None, Some(EVERYTHING)] {
                let objects = rendered(helm, minor, platform, values)?;
                judge(&kubeconform, &schemas, &objects)
                    .with_context(|| format!("Kubernetes 1.{minor}, platform {platform:?}"))?;
            }
        }
    }
    say(&format!(
        "kubeconform: Kubernetes 1.{} to 1.{}",
        MINORS.start(),
        MINORS.end()
    ));
    Ok(())
}

fn rendered(helm: &Path, minor: u32, platform: &str, values: Option<&str>) -> Result<String> {
    let version = format!("1.{minor}.0");
    let platform = format!("platform={platform}");
    let taint = format!("startupTaint.enabled={}", minor >= STARTUP_TAINT);
    let mut args = vec!["--kube-version", &version, "--set", &platform];
    args.extend(["--set", "image.repository=usher.test/usher-agent"]);
    if let Some(values) = values {
        args.extend(["--values", values, "--set", &taint]);
    }
    template(helm, &args)
}

/// A folder with a JSON schema for each type of a version.
fn schemas(minor: u32) -> Result<PathBuf> {
    let key = KeyBuilder::default().finish();
    cache::entry(&format!("chart-schemas-1.{minor}"), &key, |folder| {
        let path = module(minor)?.join("applyconfigurations/internal/internal.go");
        let files =
            files(&file::read(&path)?).with_context(|| format!("read {}", path.display()))?;
        for (name, schema) in files {
            file::write(folder.join(name), schema.to_string())?;
        }
        Ok(())
    })
}

/// Fails with kubeconform's report if an object is invalid.
fn judge(kubeconform: &Path, schemas: &Path, objects: &str) -> Result<()> {
    let files = "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json";
    let mut judged = NamedTempFile::with_suffix(".yaml").context("create a file")?;
    judged
        .write_all(objects.as_bytes())
        .context("write the objects")?;
    let mut kubeconform = Command::new(kubeconform);
    kubeconform.args(["-strict", "-skip", OTHERS, "-schema-location"]);
    report(kubeconform.arg(schemas.join(files)).arg(judged.path())).map(drop)
}

/// The folder of client-go in Go's cache of modules.
fn module(minor: u32) -> Result<PathBuf> {
    // A separate module, so that the tree's go.mod and go.sum stay unchanged.
    let folder = target_dir().join("chart-schemas");
    file::write(folder.join("go.mod"), "module usher.dev/schemas\n")?;
    let mut download = Command::new("go");
    download
        .current_dir(&folder)
        .args(["mod", "download", "-json"]);
    let answer = output(download.arg(format!("k8s.io/client-go@v0.{minor}.0")))?;
    let answer: Value = serde_json::from_str(&answer).context("read the answer of go")?;
    let place = answer["Dir"].as_str();
    Ok(place.context("go reports no folder of the module")?.into())
}

/// A file for each type in the source of client-go.
fn files(source: &str) -> Result<Vec<(String, Value)>> {
    let (_before, rest) = source
        .split_once("YAMLObject(`")
        .context("no document in it")?;
    let (document, _after) = rest.split_once("`)").context("the document has no end")?;
    let document: Value = serde_saphyr::from_str(document).context("read the document")?;
    let types = document["types"].as_array().context("no types")?;
    let named = |one: &Value| Some((file_name(one["name"].as_str()?), schema(one)));
    let files: Vec<(String, Value)> = types.iter().filter_map(named).collect();
    let mut names = files.iter().map(|(name, _schema)| name);
    ensure!(
        names.any(|name| name == "apps_v1_daemonset.json"),
        "no DaemonSet in it"
    );
    Ok(files)
}

/// The file of a type, where kubeconform expects those of the kinds.
fn file_name(name: &str) -> String {
    let of_kind = || {
        let (group, kind) = name.strip_prefix("io.k8s.api.")?.split_once('.')?;
        let (version, kind) = kind.split_once('.')?;
        let (_name, group) = GROUPS.iter().find(|(name, _group)| *name == group)?;
        Some(format!("{group}_{version}_{}.json", kind.to_lowercase()))
    };
    of_kind().unwrap_or_else(|| format!("{name}.json"))
}

/// A type as a schema that rejects other fields. A type of several kinds, such as a quantity, accepts everything.
fn schema(one: &Value) -> Value {
    if let Some(name) = one["namedType"].as_str() {
        return json!({ "$ref": file_name(name) });
    }
    let (scalar, list, map) = (&one["scalar"], &one["list"], &one["map"]);
    match (scalar.as_str(), list.is_object(), map.is_object()) {
        (Some("string"), false, false) => json!({ "type": "string" }),
        (Some("numeric"), false, false) => json!({ "type": "number" }),
        (Some("boolean"), false, false) => json!({ "type": "boolean" }),
        (None, true, false) => json!({ "type": "array", "items": schema(&list["elementType"]) }),
        (None, false, true) => {
            let fields = map["fields"].as_array().into_iter().flatten();
            let properties: Map<String, Value> = fields
                .filter_map(|field| {
                    Some((field["name"].as_str()?.to_owned(), schema(&field["type"])))
                })
                .collect();
            let others = match &map["elementType"] {
                Value::Null => json!(false),
                other => schema(other),
            };
            json!({ "type": "object", "properties": properties, "additionalProperties": others })
        }
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "package internal\nvar schemaYAML = typed.YAMLObject(`types:
- name: io.k8s.api.apps.v1.DaemonSet
  map:
    fields:
    - name: kind
      type:
        scalar: string
    - name: labels
      type:
        map:
          elementType:
            scalar: string
    - name: spec
      type:
        namedType: io.k8s.api.apps.v1.DaemonSetSpec
- name: io.k8s.api.apps.v1.DaemonSetSpec
  map:
    fields:
    - name: size
      type:
        namedType: Quantity
    - name: items
      type:
        list:
          elementType:
            scalar: boolean
- name: Quantity
  scalar: untyped
`)\n";

    #[test]
    fn types_become_closed_schemas() {
        let files = files(SOURCE).unwrap();
        let names: Vec<&str> = files.iter().map(|(name, _schema)| &name[..]).collect();
        let expected = [
            "apps_v1_daemonset.json",
            "apps_v1_daemonsetspec.json",
            "Quantity.json",
        ];
        assert_eq!(names, expected);
        let [kind, spec, quantity] = [0, 1, 2].map(|number| &files[number].1);
        assert_eq!(kind["additionalProperties"], false);
        assert_eq!(
            kind["properties"]["labels"]["additionalProperties"]["type"],
            "string"
        );
        let reference = &kind["properties"]["spec"]["$ref"];
        assert_eq!(reference, "apps_v1_daemonsetspec.json");
        assert_eq!(spec["properties"]["items"]["items"]["type"], "boolean");
        assert_eq!(quantity, &json!({}));
        assert!(files_of_nothing().is_err());
    }

    fn files_of_nothing() -> Result<Vec<(String, Value)>> {
        files("YAMLObject(`types: []\n`)")
    }
}
