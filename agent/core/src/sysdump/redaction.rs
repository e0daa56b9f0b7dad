//! What is left out of a dump, by rules that have names and are counted.
//!
//! The rules look at a document as a whole, not at known fields of known commands: a member whose name says that it is a
//! secret, words of a command line, anything in a text that looks like one. Values keep their type, so that what was
//! redacted is still read back as what it was.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value};

use super::secret::{self, MARK};
use crate::{annotation, recipe::Reads};

/// Members that have the words of a command line, whatever document they are in.
const COMMAND_LINES: [&str; 6] = ["argv", "args", "command", "cmdline", "words", "arguments"];
/// Annotations and labels of meshes, and of what has a recipe, by the end of the part before the slash.
const KEPT: [&str; 10] = [
    "istio.io",
    "linkerd.io",
    "kuma.io",
    "hashicorp.com",
    "dapr.io",
    "cilium.io",
    "openservicemesh.io",
    "appmesh.k8s.aws",
    "kubernetes.io",
    "k8s.io",
];
/// What the tools of people keep of their own there, all of an object at times.
const NEVER: [&str; 1] = ["kubectl.kubernetes.io/last-applied-configuration"];

/// Why something was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An annotation or a label of somebody else.
    Annotation,
    /// A word of a command line.
    Argument,
    /// A value whose name says that it is a secret.
    Named,
    /// A field of a pod that no command reads.
    Field,
    /// Something in a text.
    Text,
    /// The value of a variable.
    Variable,
}

impl Rule {
    /// Its name in the manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::Argument => "argument",
            Self::Named => "named",
            Self::Field => "field",
            Self::Text => "text",
            Self::Variable => "variable",
        }
    }

    /// What it leaves out, for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Annotation => {
                "annotations and labels that are neither usher's, Kubernetes' nor a mesh's, with their keys"
            }
            Self::Argument => {
                "words of command lines whose flag says that they are secret, such as --password"
            }
            Self::Named => "values whose name says that they are secret, such as token",
            Self::Field => "fields of pods that no command of usher reads",
            Self::Text => {
                "what looks like a secret in a text: users of URLs, Authorization and Cookie headers, tokens, private keys"
            }
            Self::Variable => "values of variables that no recipe looks at",
        }
    }

    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Annotation,
        Self::Argument,
        Self::Named,
        Self::Field,
        Self::Text,
        Self::Variable,
    ];
}

/// Leaves out, and counts.
#[derive(Debug)]
pub struct Redaction<'a> {
    /// What recipes look at.
    reads: &'a Reads,
    counts: BTreeMap<Rule, u64>,
}

impl<'a> Redaction<'a> {
    /// One for each file.
    pub fn new(reads: &'a Reads) -> Self {
        Self {
            reads,
            counts: BTreeMap::new(),
        }
    }

    /// How often each rule left something out.
    pub fn counts(&self) -> &BTreeMap<Rule, u64> {
        &self.counts
    }

    pub(super) fn count(&mut self, rule: Rule, count: u64) {
        if count > 0 {
            *self.counts.entry(rule).or_default() += count;
        }
    }

    /// A text, such as a log.
    pub fn text<'text>(&mut self, text: &'text str) -> Cow<'text, str> {
        match secret::scrubbed(text) {
            Some((clean, count)) => {
                self.count(Rule::Text, count);
                Cow::Owned(clean)
            }
            None => Cow::Borrowed(text),
        }
    }

    /// A whole document. What a document of JSON can be nested is bounded by who reads it, and with it this.
    pub fn document(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => self.string(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.document(value)),
            Value::Object(members) => self.members(members),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn members(&mut self, members: &mut Map<String, Value>) {
        // The form of Kubernetes and of many others: a name beside its value.
        let named = members.get("name").and_then(Value::as_str);
        let is_named = named.is_some_and(secret::is_name);
        for (name, value) in members {
            match value {
                Value::String(text) if secret::is_name(name) || (is_named && name == "value") => {
                    if !text.is_empty() && text != MARK {
                        MARK.clone_into(text);
                        self.count(Rule::Named, 1);
                    }
                }
                Value::Array(words) if COMMAND_LINES.contains(&name.as_str()) => {
                    self.command_line(words);
                }
                Value::Object(notes) if ["annotations", "labels"].contains(&name.as_str()) => {
                    self.notes(notes);
                }
                value => self.document(value),
            }
        }
    }

    fn string(&mut self, text: &mut String) {
        if let Some((clean, count)) = secret::scrubbed(text) {
            *text = clean;
            self.count(Rule::Text, count);
        }
    }

    /// `--password X` is two words; `--password=X` is one, which is a text as any other.
    pub(super) fn command_line(&mut self, words: &mut [Value]) {
        let mut is_secret = false;
        for word in words {
            let Value::String(text) = word else {
                self.document(word);
                is_secret = false;
                continue;
            };
            let is_flag = text.starts_with('-');
            if is_secret && !is_flag && !text.is_empty() {
                if text != MARK {
                    MARK.clone_into(text);
                    self.count(Rule::Argument, 1);
                }
                is_secret = false;
                continue;
            }
            is_secret = is_flag && !text.contains('=') && secret::is_name(text);
            self.string(text);
        }
    }

    /// Annotations or labels.
    pub(super) fn notes(&mut self, notes: &mut Map<String, Value>) {
        let before = notes.len();
        notes.retain(|key, _value| self.keeps(key));
        self.count(Rule::Annotation, (before - notes.len()) as u64);
        for (key, value) in notes {
            // A setting of a mesh may well have a token in its name and a file for a value; what looks like one goes.
            match value {
                Value::String(text) if !key.starts_with(annotation::PREFIX) => self.string(text),
                _ => {}
            }
        }
    }

    fn keeps(&self, key: &str) -> bool {
        if NEVER.contains(&key) {
            return false;
        }
        let domain = key.split_once('/').map(|(domain, _)| domain);
        let is_of = |domain: &str| {
            let is_below = |known: &str| {
                let before = domain.strip_suffix(known);
                before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
            };
            KEPT.iter().any(|known| is_below(known))
        };
        key.starts_with(annotation::PREFIX)
            || self.reads.annotations.contains(key)
            || domain.is_some_and(is_of)
    }

    /// The value of a variable; one that a recipe looks at stays, if it does not look like a secret.
    pub(super) fn variable(&mut self, name: &str, value: &mut String) {
        if self.reads.env.contains(name) && !secret::is_name(name) {
            return self.string(value);
        }
        if !value.is_empty() && value != MARK {
            MARK.clone_into(value);
            self.count(Rule::Variable, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(mut value: Value) -> (Value, BTreeMap<Rule, u64>) {
        let reads = Reads::default();
        let mut redaction = Redaction::new(&reads);
        redaction.document(&mut value);
        (value, redaction.counts)
    }

    #[test]
    fn document_of_any_command() {
        let (value, counts) = of(json!({
            "kind": "Conns",
            "rows": [{"argv": ["app", "--password", "hunter2", "--token=abc", "-v"], "pid": 7}],
            "settings": [{"name": "DB_PASSWORD", "value": "x"}, {"name": "PORT", "value": "80"}],
            "apiToken": "abc", "tokenCount": 3, "token": true, "password": "",
            "annotations": {
                "usher.dev/quit": "false", "sidecar.istio.io/inject": "true", "shop.example/owner": "me",
                "notistio.io/a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}",
            },
            "said": "GET http://me:pw@host/ failed",
        }));
        let expected = json!({
            "kind": "Conns",
            "rows": [{"argv": ["app", "--password", "[redacted]", "--token=[redacted]", "-v"], "pid": 7}],
            "settings": [{"name": "DB_PASSWORD", "value": "[redacted]"}, {"name": "PORT", "value": "80"}],
            "apiToken": "[redacted]", "tokenCount": 3, "token": true, "password": "",
            "annotations": {"usher.dev/quit": "false", "sidecar.istio.io/inject": "true"},
            "said": "GET http://[redacted]@host/ failed",
        });
        assert_eq!(value, expected);
        let counts: Vec<(&str, u64)> = counts
            .iter()
            .map(|(rule, count)| (rule.as_str(), *count))
            .collect();
        assert_eq!(
            counts,
            [
                ("annotation", 3),
                ("argument", 1),
                ("named", 2),
                ("text", 2)
            ]
        );
        let (again, counts) = of(expected.clone());
        assert_eq!((again, counts.len()), (expected, 0));
    }

    #[test]
    fn flag_without_value_hides_no_flag() {
        let (value, _) = of(json!({"args": ["--token", "--port", "80", "--secret", 7, "a"]}));
        let expected = json!({"args": ["--token", "--port", "80", "--secret", 7, "a"]});
        assert_eq!(value, expected);
    }

    #[test]
    fn rules_have_names_of_their_own() {
        let mut names = Rule::ALL.map(Rule::as_str).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Rule::ALL.len());
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ -~]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let name = prop_oneof![
                Just("token".to_owned()),
                Just("args".to_owned()),
                "[a-z]{1,4}"
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(name, inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn types_stay_and_twice_is_once(value in json_value()) {
            let (once, _) = of(value.clone());
            prop_assert_eq!(shape(&once), shape(&value));
            let (twice, counts) = of(once.clone());
            prop_assert_eq!(twice, once);
            prop_assert!(counts.is_empty());
        }
    }

    /// The document without what its texts say.
    fn shape(value: &Value) -> Value {
        match value {
            Value::String(_) => json!(""),
            Value::Array(values) => values.iter().map(shape).collect(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| (name.clone(), shape(value)))
                .collect(),
            other => other.clone(),
        }
    }
}
