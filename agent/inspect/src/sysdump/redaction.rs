//! Redacts a sysdump by named rules, and counts the redactions.
//!
//! The rules apply to whole documents, not to known fields of known commands: members with a secret name, arguments of command
//! lines, texts that look like a secret. Values keep their type, so that a redacted document can still be parsed.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value};
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use usher_core::{recipe::Reads, settings::annotation};

use super::{REDACTED, secret};

/// Members that have the arguments of a command line, in any document.
const COMMAND_LINES: [&str; 6] = ["argv", "args", "command", "cmdline", "words", "arguments"];
/// Domains, with their subdomains, of annotations and labels that are kept: Kubernetes, meshes, and programs with a recipe.
const KEPT_DOMAINS: [&str; 10] = [
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
/// Annotations of kept domains that are removed anyway: this one has a copy of the whole object.
const REMOVED_KEYS: [&str; 1] = ["kubectl.kubernetes.io/last-applied-configuration"];

/// A rule, with the text of what it redacts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, EnumMessage, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Rule {
    #[strum(
        message = "annotations and labels, with their keys, except those of usher, Kubernetes and meshes"
    )]
    Annotation,
    #[strum(message = "arguments with a secret name, such as --password X or PASSWORD=X")]
    Argument,
    #[strum(message = "values with a secret name, such as token")]
    Named,
    #[strum(message = "fields of pods that no command of usher reads")]
    Field,
    #[strum(
        message = "texts that look like a secret: users in URLs, Authorization and Cookie headers, tokens, private keys"
    )]
    Text,
    #[strum(message = "values of environment variables that no recipe reads")]
    Variable,
}

impl Rule {
    /// The name in the manifest.
    pub const fn as_str(self) -> &'static str {
        self.into_str()
    }

    /// What the rule redacts, as text.
    pub fn meaning(self) -> &'static str {
        self.get_message().unwrap_or_default()
    }
}

/// Redacts one file, and counts the redactions.
#[derive(Debug)]
pub struct Redaction<'a> {
    /// The annotations and variables that recipes read.
    reads: &'a Reads,
    counts: BTreeMap<Rule, u64>,
}

impl<'a> Redaction<'a> {
    /// A redaction without counts. Each file needs its own.
    pub fn new(reads: &'a Reads) -> Self {
        Self {
            reads,
            counts: BTreeMap::new(),
        }
    }

    pub fn counts(&self) -> &BTreeMap<Rule, u64> {
        &self.counts
    }

    pub(super) fn count(&mut self, rule: Rule, count: u64) {
        if count > 0 {
            *self.counts.entry(rule).or_default() += count;
        }
    }

    pub fn text<'text>(&mut self, text: &'text str) -> Cow<'text, str> {
        match secret::redact_text(text) {
            Some((clean, count)) => {
                self.count(Rule::Text, count);
                Cow::Owned(clean)
            }
            None => Cow::Borrowed(text),
        }
    }

    /// Redacts a whole document. The JSON parser limits the nesting, and with it the recursion here.
    pub fn document(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => self.string(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.document(value)),
            Value::Object(members) => self.members(members),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn members(&mut self, members: &mut Map<String, Value>) {
        // Kubernetes and other programs write {"name": ..., "value": ...}.
        let named = members.get("name").and_then(Value::as_str);
        let is_named = named.is_some_and(secret::is_secret_name);
        for (name, value) in members {
            match value {
                Value::String(_) | Value::Array(_)
                    if secret::is_secret_name(name) || (is_named && name == "value") =>
                {
                    self.named(value);
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

    /// Redacts the value of a secret name: a string, or a list of strings.
    fn named(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => self.whole(text, Rule::Named),
            Value::Array(values) => values.iter_mut().for_each(|value| self.named(value)),
            value => self.document(value),
        }
    }

    fn whole(&mut self, text: &mut String, rule: Rule) {
        if !text.is_empty() && text != REDACTED {
            REDACTED.clone_into(text);
            self.count(rule, 1);
        }
    }

    fn string(&mut self, text: &mut String) {
        if let Some((clean, count)) = secret::redact_text(text) {
            *text = clean;
            self.count(Rule::Text, count);
        }
    }

    /// Redacts the argument after a secret flag, and the value in `--password=X` or `PASSWORD=X`.
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
                self.whole(text, Rule::Argument);
                is_secret = false;
                continue;
            }
            is_secret = is_flag && !text.contains('=') && secret::is_secret_name(text);
            match secret::assignment(text) {
                Some((_, "" | REDACTED)) => {}
                Some((name, _)) => {
                    *text = format!("{name}{REDACTED}");
                    self.count(Rule::Argument, 1);
                }
                None => self.string(text),
            }
        }
    }

    /// Redacts annotations or labels.
    pub(super) fn notes(&mut self, notes: &mut Map<String, Value>) {
        let before = notes.len();
        notes.retain(|key, _value| self.keeps(key));
        self.count(Rule::Annotation, (before - notes.len()) as u64);
        for (key, value) in notes {
            // A mesh setting may have "token" in its name and a file as its value, so only the text is checked. Annotations of
            // usher have names of containers, which may look like anything, and are kept.
            match value {
                Value::String(_) if key.starts_with(annotation::PREFIX) => {}
                value => self.document(value),
            }
        }
    }

    fn keeps(&self, key: &str) -> bool {
        if REMOVED_KEYS.contains(&key) {
            return false;
        }
        let domain = key.split_once('/').map(|(domain, _)| domain);
        let is_of = |domain: &str| {
            let is_below = |known: &str| {
                let before = domain.strip_suffix(known);
                before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
            };
            KEPT_DOMAINS.iter().any(|known| is_below(known))
        };
        key.starts_with(annotation::PREFIX)
            || self.reads.annotations.contains(key)
            || domain.is_some_and(is_of)
    }

    /// Redacts the value of an environment variable. A value that a recipe reads is kept unless it looks like a secret.
    pub(super) fn variable(&mut self, name: &str, value: &mut String) {
        if self.reads.env.contains(name) && !secret::is_secret_name(name) {
            return self.string(value);
        }
        self.whole(value, Rule::Variable);
    }
}

#[cfg(test)]
mod tests;
