//! Checks the chart's objects against the types of each version of Kubernetes, with kubeconform.
//!
//! The types are those of client-go, which has the fields of all kinds in one document for server-side apply. Its
//! module has 2.5 MiB for each version; the module with the OpenAPI document has 40 MiB. The document does not list
//! required fields; the test `schema::every_platform_renders_valid_objects` compares with the API server of a cluster.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;
use usher_cluster::{
    programs,
    progress::{output, say},
};

use super::template;
use crate::{file, workspace::target_dir};

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
        let schemas = Schemas::of(minor)?;
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
                schemas
                    .judge(&kubeconform, &objects)
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

/// A JSON schema for each kind, in a directory.
struct Schemas(PathBuf);

impl Schemas {
    /// The schemas of a version, from the cache or from the module.
    fn of(minor: u32) -> Result<Self> {
        let folder = target_dir().join(format!("chart-schemas/1.{minor}"));
        if folder.exists() {
            return Ok(Self(folder));
        }
        let module = module(minor)?;
        let path = module.join("applyconfigurations/internal/internal.go");
        let files =
            files(&file::read(&path)?).with_context(|| format!("read {}", path.display()))?;
        let unfinished = folder.with_extension("unfinished");
        for (name, schema) in files {
            file::write(unfinished.join(name), schema.to_string())?;
        }
        fs::rename(&unfinished, &folder).context("rename the folder of schemas")?;
        Ok(Self(folder))
    }

    /// Fails with kubeconform's report if an object is invalid.
    fn judge(&self, kubeconform: &Path, objects: &str) -> Result<()> {
        let files = "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json";
        let mut judged = NamedTempFile::with_suffix(".yaml").context("create a file")?;
        judged
            .write_all(objects.as_bytes())
            .context("write the objects")?;
        let done = Command::new(kubeconform)
            .args(["-strict", "-skip", OTHERS, "-schema-location"])
            .arg(self.0.join(files))
            .arg(judged.path())
            .output()
            .context("start kubeconform")?;
        let report = [done.stdout, done.stderr].concat();
        let report = String::from_utf8_lossy(&report);
        ensure!(done.status.success(), "{}", report.trim());
        Ok(())
    }
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

/// The files of the kinds in the source of client-go.
fn files(source: &str) -> Result<Vec<(String, Value)>> {
    let (_before, rest) = source
        .split_once("YAMLObject(`")
        .context("no document in it")?;
    let (document, _after) = rest.split_once("`)").context("the document has no end")?;
    let document: Value = serde_saphyr::from_str(document).context("read the document")?;
    let types = document["types"].as_array().context("no types")?;
    let definitions: Map<String, Value> = types
        .iter()
        .filter_map(|one| Some((one["name"].as_str()?.to_owned(), schema(one))))
        .collect();
    let files: Vec<(String, Value)> = definitions
        .iter()
        .filter(|(_name, schema)| schema["properties"]["kind"].is_object())
        .filter_map(|(name, _schema)| {
            let (group, kind) = name.strip_prefix("io.k8s.api.")?.split_once('.')?;
            let (version, kind) = kind.split_once('.')?;
            let (_name, group) = GROUPS.iter().find(|(name, _group)| *name == group)?;
            let file = format!("{group}_{version}_{}.json", kind.to_lowercase());
            Some((file, alone(&definitions, name)))
        })
        .collect();
    ensure!(
        files
            .iter()
            .any(|(name, _schema)| name == "apps_v1_daemonset.json"),
        "no DaemonSet in it"
    );
    Ok(files)
}

/// A type as a schema that rejects other fields. A type of several kinds, such as a quantity, accepts everything.
fn schema(one: &Value) -> Value {
    if let Some(name) = one["namedType"].as_str() {
        return json!({ "$ref": format!("#/definitions/{name}") });
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

/// A definition with all definitions that it refers to.
fn alone(definitions: &Map<String, Value>, name: &str) -> Value {
    let (mut wanted, mut found) = (vec![name.to_owned()], Map::new());
    while let Some(name) = wanted.pop() {
        if found.contains_key(&name) {
            continue;
        }
        let definition = definitions.get(&name).cloned().unwrap_or_else(|| json!({}));
        referred(&definition, &mut wanted);
        found.insert(name, definition);
    }
    json!({ "$ref": format!("#/definitions/{name}"), "definitions": found })
}

fn referred(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(all) => {
            let name = all.get("$ref").and_then(Value::as_str);
            names.extend(name.map(|name| name.trim_start_matches("#/definitions/").to_owned()));
            all.values().for_each(|below| referred(below, names));
        }
        Value::Array(all) => all.iter().for_each(|below| referred(below, names)),
        _ => {}
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
- name: unused
  scalar: numeric
`)\n";

    #[test]
    fn types_become_closed_schemas() {
        let files = files(SOURCE).unwrap();
        let [(name, schema)] = &files[..] else {
            panic!("{files:?}");
        };
        assert_eq!(name, "apps_v1_daemonset.json");
        let definitions = schema["definitions"].as_object().unwrap();
        assert_eq!(definitions.len(), 3);
        let kind = &definitions["io.k8s.api.apps.v1.DaemonSet"];
        assert_eq!(kind["additionalProperties"], false);
        assert_eq!(
            kind["properties"]["labels"]["additionalProperties"]["type"],
            "string"
        );
        let spec = &definitions["io.k8s.api.apps.v1.DaemonSetSpec"];
        assert_eq!(spec["properties"]["items"]["items"]["type"], "boolean");
        assert_eq!(definitions["Quantity"], json!({}));
        assert!(files_of_nothing().is_err());
    }

    fn files_of_nothing() -> Result<Vec<(String, Value)>> {
        files("YAMLObject(`types: []\n`)")
    }
}
