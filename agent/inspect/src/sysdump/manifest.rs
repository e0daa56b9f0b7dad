//! `manifest.json`, the first file of a sysdump: its files, what is missing and why, and the redactions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Rule;

/// The version of the format. A sysdump of another version is rejected.
pub const API_VERSION: &str = "usher.dev/sysdump/v1";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub api_version: String,
    /// Time of creation, and modification time of every file. Milliseconds since 1970-01-01T00:00:00Z.
    pub at_ms: u64,
    pub usher: String,
    /// The node's name, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default)]
    pub pods: Vec<Pod>,
    /// Every other file, by path.
    #[serde(default)]
    pub files: Vec<File>,
    #[serde(default)]
    pub missing: Vec<Missing>,
    #[serde(default)]
    pub redacted: Vec<Redacted>,
}

/// A pod, with all attributes that can select it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    pub uid: String,
    /// Namespace, if it is known.
    #[serde(default)]
    pub namespace: String,
    /// Name, if it is known.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub ips: Vec<String>,
    #[serde(default)]
    pub containers: Vec<Container>,
    /// The folder of its reports.
    pub folder: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Name, if it is known.
    #[serde(default)]
    pub name: String,
    /// The runtime's container ID.
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub pids: Vec<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct File {
    pub path: String,
    /// Origin: a command, or a file of the node.
    pub source: String,
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// A file that is not available.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Missing {
    /// Path that the file would have.
    pub path: String,
    /// Origin that the file would have.
    pub source: String,
    pub why: String,
}

/// The redactions of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redacted {
    pub rule: String,
    pub what: String,
    /// Number of redactions by file.
    pub files: BTreeMap<String, u64>,
}

impl Manifest {
    /// The manifest of an empty sysdump.
    pub fn new(at_ms: u64, usher: &str) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            at_ms,
            usher: usher.to_owned(),
            ..Self::default()
        }
    }

    /// Counts the redactions in a file.
    pub fn redacted(&mut self, path: &str, counts: &BTreeMap<Rule, u64>) {
        for (rule, count) in counts {
            let name = rule.as_str();
            let at = self.redacted.iter().position(|known| known.rule == name);
            let at = at.unwrap_or_else(|| {
                self.redacted.push(Redacted {
                    rule: name.to_owned(),
                    what: rule.meaning().to_owned(),
                    files: BTreeMap::new(),
                });
                self.redacted.len() - 1
            });
            *self.redacted[at].files.entry(path.to_owned()).or_default() += count;
        }
    }

    /// Sorts everything, so that the same node gives the same bytes.
    pub fn sort(&mut self) {
        self.pods.sort_by(|one, other| one.uid.cmp(&other.uid));
        self.files.sort_by(|one, other| one.path.cmp(&other.path));
        self.missing.sort();
        self.redacted
            .sort_by(|one, other| one.rule.cmp(&other.rule));
    }

    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Why a file is missing, if that is known.
    pub fn why_not(&self, path: &str) -> Option<&str> {
        let missing = self.missing.iter().find(|missing| missing.path == path);
        missing.map(|missing| missing.why.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_depend_on_insertion() {
        let of = |paths: [&str; 2]| {
            let mut manifest = Manifest::new(1, "0.1.0");
            for path in paths {
                manifest.redacted(path, &BTreeMap::from([(Rule::Argument, 1)]));
                manifest.redacted(path, &BTreeMap::from([(Rule::Annotation, 2)]));
                manifest.missing.push(Missing {
                    path: path.to_owned(),
                    source: "usher conns".to_owned(),
                    why: "no".to_owned(),
                });
            }
            manifest.sort();
            manifest
        };
        let manifest = of(["b", "a"]);
        assert_eq!(manifest, of(["a", "b"]));
        let rules: Vec<&str> = manifest.redacted.iter().map(|one| &one.rule[..]).collect();
        assert_eq!(rules, ["annotation", "argument"]);
        assert_eq!(manifest.why_not("a"), Some("no"));
        assert_eq!(manifest.why_not("c"), None);
    }

    #[test]
    fn redactions_are_counted_by_rule_and_file() {
        let mut manifest = Manifest::new(1, "0.1.0");
        manifest.redacted("a", &BTreeMap::from([(Rule::Text, 2)]));
        manifest.redacted("b", &BTreeMap::from([(Rule::Text, 1), (Rule::Named, 4)]));
        manifest.redacted("a", &BTreeMap::from([(Rule::Text, 3)]));
        manifest.sort();
        let counted = manifest.redacted.iter().flat_map(|one| {
            let files = one.files.iter();
            files.map(|(path, count)| (one.rule.as_str(), path.as_str(), *count))
        });
        let expected = [("named", "b", 4), ("text", "a", 5), ("text", "b", 1)];
        assert_eq!(counted.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn files_are_found_by_their_whole_path() {
        let mut manifest = Manifest::new(1, "0.1.0");
        for (path, bytes) in [("node/check.json", 1), ("check.json", 2)] {
            manifest.files.push(File {
                path: path.to_owned(),
                source: "usher check".to_owned(),
                bytes,
                sha256: String::new(),
            });
        }
        let size = |path| manifest.file(path).map(|file| file.bytes);
        assert_eq!(size("node/check.json"), Some(1));
        assert_eq!(size("check.json"), Some(2));
        assert_eq!(size("json"), None);
    }

    #[test]
    fn manifest_round_trips_and_optional_fields_may_be_missing() {
        let manifest = Manifest::new(7, "0.1.0");
        let text = serde_json::to_string(&manifest).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
        let least = r#"{"apiVersion":"usher.dev/sysdump/v1","atMs":7,"usher":"0.1.0","new":1}"#;
        assert_eq!(serde_json::from_str::<Manifest>(least).unwrap(), manifest);
    }
}
