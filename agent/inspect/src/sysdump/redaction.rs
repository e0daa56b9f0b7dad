//! What is left out of a dump, by rules that have names and are counted.
//!
//! The rules look at a document as a whole, not at known fields of known commands: a member whose name says that it is a
//! secret, words of a command line, anything in a text that looks like one. Values keep their type, so that what was
//! redacted is still read back as what it was.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value};
use usher_core::{recipe::Reads, settings::annotation};

use super::secret::{self, MARK};

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
            // What usher reads has names of containers, which may be called anything.
            match value {
                Value::String(_) if key.starts_with(annotation::PREFIX) => {}
                value => self.document(value),
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
mod tests;
