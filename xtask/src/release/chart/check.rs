//! Checks of the chart: `helm lint` for every platform, the types of each version of Kubernetes, the chart's own tests,
//! versions and platforms.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use usher_cluster::{
    programs,
    progress::{output, say},
};

use super::CHART;
use crate::{
    file,
    workspace::{report, root},
};

/// The entry of platforms.yaml that all others extend.
const DEFAULT: &str = "default";
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) fn all(helm: &Path) -> Result<()> {
    versions()?;
    let platforms = platforms()?;
    for platform in &platforms {
        lint(helm, platform)?;
    }
    say(&format!(
        "helm lint --strict: {} platforms",
        platforms.len()
    ));
    super::schema::check(helm, &platforms)?;
    tests()
}

/// Checks that all versions are equal: the tag of the image is the chart's appVersion by default.
fn versions() -> Result<()> {
    let chart: Value = yaml("Chart.yaml")?;
    for key in ["version", "appVersion"] {
        ensure!(
            chart[key] == VERSION,
            "Chart.yaml: {key} is {}, and the version of the workspace is {VERSION}",
            chart[key]
        );
    }
    Ok(())
}

/// The platforms of the data, which must equal those of the schema. The default platform is the empty name.
fn platforms() -> Result<BTreeSet<String>> {
    let data: BTreeMap<String, Value> = yaml("files/platforms.yaml")?;
    let others = data.into_keys().filter(|name| name != DEFAULT);
    let known: BTreeSet<String> = others.chain([String::new()]).collect();
    let valid = &schema()?["properties"]["platform"]["enum"];
    let valid = BTreeSet::deserialize(valid).context("read the platforms of the schema")?;
    ensure!(
        known == valid,
        "platforms.yaml has {known:?}, and values.schema.json has {valid:?}"
    );
    Ok(known)
}

fn schema() -> Result<Value> {
    yaml("values.schema.json")
}

/// A file of the chart. JSON is YAML, too.
fn yaml<T: DeserializeOwned>(name: &str) -> Result<T> {
    let text = file::read(Path::new(CHART).join(name))?;
    serde_saphyr::from_str(&text).with_context(|| format!("read {name}"))
}

fn lint(helm: &Path, platform: &str) -> Result<()> {
    let mut lint = Command::new(helm);
    lint.current_dir(root()).args(["lint", "--strict", CHART]);
    lint.args(["--set", &format!("platform={platform}")]);
    let report = output(&mut lint).with_context(|| format!("platform {platform:?}"))?;
    if report.contains("[WARNING]") || report.contains("[ERROR]") {
        bail!("platform {platform:?}: {report}");
    }
    Ok(())
}

fn tests() -> Result<()> {
    let mut tests = Command::new(programs::helm_unittest()?);
    tests.current_dir(root()).args(["--strict", CHART]);
    let report = report(&mut tests).context("the chart's own tests")?;
    let summary = report.lines().filter(|line| line.starts_with("Test"));
    summary.for_each(say);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs::configuration;

    #[test]
    fn versions_and_platforms_are_the_trees() {
        versions().unwrap();
        assert!(platforms().unwrap().contains("openshift"));
    }

    #[test]
    fn values_take_the_keys_of_the_configuration_and_no_others() {
        let schema = schema().unwrap();
        let config = schema["properties"]["config"]["properties"].as_object();
        // The template adds these chart values to the file.
        let modes =
            ["mode", "modes"].map(|key| (key.to_owned(), schema["properties"][key].clone()));
        let mut taken = BTreeSet::new();
        for (key, of) in config.unwrap().clone().into_iter().chain(modes) {
            match of["properties"].as_object() {
                Some(below) => taken.extend(below.keys().map(|name| format!("{key}.{name}"))),
                None => drop(taken.insert(key)),
            }
        }
        let known: BTreeSet<String> = configuration::names().map(str::to_owned).collect();
        assert_eq!(taken, known);
    }

    /// The last part of each value's name must occur in a test: a test that sets an interval covers
    /// `podMonitor.interval`.
    #[test]
    fn every_value_is_in_a_test_of_the_chart() {
        fn leaves(name: &str, schema: &Value, found: &mut BTreeSet<String>) {
            match schema["properties"].as_object() {
                // The keys of the configuration file have a schema of their own.
                Some(below) if name != "config" => {
                    below
                        .iter()
                        .for_each(|(name, schema)| leaves(name, schema, found));
                }
                _ => drop(found.insert(name.to_owned())),
            }
        }
        let mut names = BTreeSet::new();
        leaves("", &schema().unwrap(), &mut names);
        let tests = std::fs::read_dir(root().join(CHART).join("tests")).unwrap();
        let tests: String = tests
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.display().to_string().ends_with("_test.yaml"))
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        let words: BTreeSet<&str> = tests.split(|char: char| !char.is_alphanumeric()).collect();
        let untested: Vec<&String> = names
            .iter()
            .filter(|name| !words.contains(name.as_str()))
            .collect();
        assert!(untested.is_empty(), "{untested:?}");
    }

    /// An open object accepts misspelt keys. The exceptions are maps of strings, Kubernetes' own types, which the API
    /// server checks, and the global values, which other charts share.
    #[test]
    fn objects_reject_unknown_keys() {
        fn open(path: &str, schema: &Value, found: &mut Vec<String>) {
            if schema["type"] == "object"
                && schema["properties"].is_object()
                && schema["additionalProperties"] != false
            {
                found.push(path.to_owned());
            }
            for (key, below) in schema.as_object().into_iter().flatten() {
                open(&format!("{path}/{key}"), below, found);
            }
        }
        let mut found = Vec::new();
        open("", &schema().unwrap(), &mut found);
        assert_eq!(
            found,
            ["/properties/extraVolumes/items", "/properties/global"]
        );
    }
}
