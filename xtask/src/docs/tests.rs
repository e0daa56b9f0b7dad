//! Tests that the pages equal the generated ones, and parses the YAML examples of all pages as usher does.
//!
//! The fence has the kind of the example: `yaml title=config.yaml`. An example without a kind is an error, because no
//! test could detect that it is invalid.

use serde_json::Value;
use usher_core::settings::{
    annotation::{self, Holder},
    config::{Config, Defaults},
    overrides::{NamespaceValues, Tuning, Values},
};

use super::*;
use crate::workspace::shown;

const FENCE: &str = "```";

#[derive(Debug, PartialEq)]
struct Example {
    /// The line of the example's fence.
    line: usize,
    title: String,
    text: String,
}

/// The errors in the examples of a page.
fn invalid(path: &str, page: &str) -> Vec<String> {
    let check = |example: &Example| {
        let error = example.read().err()?;
        Some(format!("{path}:{}: {error}", example.line))
    };
    examples(page).iter().filter_map(check).collect()
}

fn examples(page: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut lines = (1..).zip(page.lines());
    while let Some((line, text)) = lines.next() {
        let Some(info) = text.trim_start().strip_prefix(FENCE) else {
            continue;
        };
        let body: Vec<&str> = lines
            .by_ref()
            .map(|(_, text)| text)
            .take_while(|text| text.trim_start() != FENCE)
            .collect();
        let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
        if ["yaml", "yml"].contains(&language) {
            found.push(Example {
                line,
                title: rest.strip_prefix("title=").unwrap_or(rest).to_owned(),
                text: body.join("\n") + "\n",
            });
        }
    }
    found
}

impl Example {
    fn read(&self) -> Result<(), String> {
        match self.title.as_str() {
            "config.yaml" => config(&self.text),
            "configmap.yaml" => config_map(&self.text),
            "pod.yaml" | "job.yaml" => workload(&self.text),
            "values.yaml" => chart_values(&object(&self.text)?),
            "role.yaml" => role(&self.text),
            // Generated from the files that the tests of core parse.
            "recipe.yaml" => Ok(()),
            other => Err(format!(
                "invalid title {other:?} of an example; valid: title=config.yaml, configmap.yaml, values.yaml, \
                 role.yaml, pod.yaml or job.yaml"
            )),
        }
    }
}

fn config(text: &str) -> Result<(), String> {
    Config::parse("config.yaml", text).map_or_else(|error| Err(error.to_string()), |_| Ok(()))
}

fn object(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

/// Checks a ConfigMap as `deploy/manifests/usher.yaml` mounts it.
fn config_map(text: &str) -> Result<(), String> {
    let object = object(text)?;
    for (place, wanted) in [
        ("/kind", "ConfigMap"),
        ("/metadata/name", "usher"),
        ("/metadata/namespace", "usher"),
    ] {
        if object.pointer(place).and_then(Value::as_str) != Some(wanted) {
            return Err(format!("{place} is not {wanted}"));
        }
    }
    let file = object.pointer("/data/config.yaml").and_then(Value::as_str);
    config(file.ok_or("no data config.yaml")?)
}

/// Checks a pod, or an object with a pod template. It must have annotations of usher, all of them valid.
fn workload(text: &str) -> Result<(), String> {
    let object = object(text)?;
    let places = [
        "/spec/template/metadata/annotations",
        "/metadata/annotations",
    ];
    let found = places.iter().find_map(|place| object.pointer(place));
    let found = found.and_then(Value::as_object);
    let found = found.ok_or("its pods have no annotations")?;
    let mut values = Values::new();
    for (key, value) in found
        .iter()
        .filter(|(key, _)| key.starts_with(annotation::PREFIX))
    {
        let of_pods =
            |known: &annotation::Known| known.key == key && known.on.contains(&Holder::Pod);
        if !annotation::KNOWN.iter().any(of_pods) {
            return Err(format!("{key} is not an annotation of pods"));
        }
        let value = value
            .as_str()
            .ok_or(format!("the value of {key} is not a string"))?;
        values.insert(key.clone(), value.to_owned());
    }
    if values.is_empty() {
        return Err("its pods have no annotation of usher".to_owned());
    }
    let (_, bad) = Tuning::read(&Defaults::default(), &NamespaceValues::default(), &values);
    bad.first().map_or(Ok(()), |bad| {
        Err(format!(
            "{} is {:?}, not {}",
            bad.key, bad.value, bad.expected
        ))
    })
}

/// Checks a Role in the namespace of usher.
fn role(text: &str) -> Result<(), String> {
    let object = object(text)?;
    for (place, wanted) in [("/kind", "Role"), ("/metadata/namespace", "usher")] {
        if object.pointer(place).and_then(Value::as_str) != Some(wanted) {
            return Err(format!("{place} is not {wanted}"));
        }
    }
    let rules = object.pointer("/rules").and_then(Value::as_array);
    for rule in rules.ok_or("no rules")? {
        for field in ["apiGroups", "resources", "verbs"] {
            if !rule[field].is_array() {
                return Err(format!("a rule has no {field}"));
            }
        }
    }
    Ok(())
}

/// The README and every page of docs.
fn pages() -> Result<Vec<String>> {
    let mut pages = vec!["README.md".to_owned()];
    let paths = file::list("docs")?.into_iter().map(|path| shown(&path));
    pages.extend(paths.filter(|path| path.ends_with(".md")));
    Ok(pages)
}

/// Checks that the chart has values of these names.
fn chart_values(values: &Value) -> Result<(), String> {
    let schema =
        file::read("deploy/chart/values.schema.json").map_err(|error| format!("{error:#}"))?;
    let schema: Value = serde_json::from_str(&schema).map_err(|error| error.to_string())?;
    keys(values, &schema["properties"], "")
}

/// Checks that the schema has the keys of `values`, at every depth that it describes.
fn keys(values: &Value, properties: &Value, path: &str) -> Result<(), String> {
    let Some(known) = properties.as_object() else {
        return Ok(());
    };
    for (key, value) in values.as_object().into_iter().flatten() {
        let schema = known
            .get(key)
            .ok_or_else(|| format!("the chart has no value {path}{key}"))?;
        keys(value, &schema["properties"], &format!("{path}{key}."))?;
    }
    Ok(())
}

#[test]
fn examples_are_valid() {
    for path in pages().unwrap() {
        let invalid = invalid(&path, &file::read(&path).unwrap());
        assert!(invalid.is_empty(), "{}", invalid.join("\n"));
    }
}

#[test]
fn quickstart_shows_the_example() {
    let readme = examples(&file::read("README.md").unwrap());
    let example = file::read("deploy/examples/job.yaml").unwrap();
    assert!(readme.iter().any(|shown| shown.text == example));
}

#[test]
fn pages_are_as_the_code_generates_them() {
    check().unwrap();
}

#[test]
fn every_page_is_read_for_examples() {
    let pages = pages().unwrap();
    for (path, ..) in generated().unwrap() {
        assert!(pages.contains(&path), "{path}");
    }
}

fn found(title: &str, text: &str) -> String {
    let page = format!("# A page\n\n```yaml{title}\n{text}```\n");
    invalid("docs/a.md", &page).join("\n")
}

#[test]
fn examples_are_found_with_their_lines() {
    let page =
        "```\nyaml: no\n```\n\n```yaml title=config.yaml\na: 1\n\nb: 2\n```\n```sh\n```yaml\n```\n";
    let expected = Example {
        line: 5,
        title: "config.yaml".to_owned(),
        text: "a: 1\n\nb: 2\n".to_owned(),
    };
    assert_eq!(examples(page), [expected]);
}

#[test]
fn configuration_is_parsed() {
    assert_eq!(found(" title=config.yaml", "ladder: {kill: true}\n"), "");
    let error = found(" title=config.yaml", "ladder: {hill: true}\n");
    assert!(error.starts_with("docs/a.md:3: config.yaml:1:"), "{error}");
    let map =
        "kind: ConfigMap\nmetadata: {name: usher, namespace: usher}\ndata:\n  config.yaml: |\n";
    assert_eq!(
        found(" title=configmap.yaml", &format!("{map}    ladder: {{}}\n")),
        ""
    );
    let error = found(" title=configmap.yaml", &format!("{map}    x: 1\n"));
    assert!(error.contains("unknown field"), "{error}");
    let error = found(" title=configmap.yaml", "kind: Pod\n");
    assert_eq!(error, "docs/a.md:3: /kind is not ConfigMap");
}

#[test]
fn annotations_are_known_and_valid() {
    let pod = |annotations: &str| format!("metadata: {{annotations: {{{annotations}}}}}\n");
    let errors = |annotations: &str| found(" title=pod.yaml", &pod(annotations));
    assert_eq!(errors("usher.dev/drain: 5s"), "");
    assert!(errors("usher.dev/drain: soon").contains("not a duration"));
    assert!(errors("usher.dev/dry: 5s").contains("usher.dev/dry is not"));
    assert!(errors("usher.dev/quit: false").contains("not a string"));
    assert!(errors("other: x").contains("no annotation of usher"));
    let job = format!(
        "spec: {{template: {{{}}}}}\n",
        pod("usher.dev/quit: \"false\"").trim()
    );
    assert_eq!(found(" title=job.yaml", &job), "");
}

#[test]
fn example_without_a_kind_is_an_error() {
    assert!(found("", "a: 1\n").starts_with("docs/a.md:3: invalid title"));
    assert!(found(" title=x.yaml", "a: 1\n").contains("\"x.yaml\""));
}
