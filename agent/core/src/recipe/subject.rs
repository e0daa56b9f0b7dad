//! The container to which a recipe is applied, and the facts that are read from it.

mod shell;

use std::borrow::Cow;

use serde_json::Value;
use serde_saphyr::{budget, options};

use super::Version;
use crate::pod::spec::{Container, Pod};

/// Longest document of a pod that is parsed, in bytes. That of Istio's injector has less than 3 KiB.
const LONGEST_DOCUMENT: usize = 16 * 1024;
/// Most scalars, lists and maps of such a document.
const MOST_NODES: usize = 4096;

/// One container of one pod.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'pod> {
    pub pod: &'pod Pod,
    pub container: &'pod Container,
    /// The version of its program, where known.
    pub version: Option<Version>,
}

impl<'pod> Subject<'pod> {
    /// Whether these words stand one after the other in the command and its arguments.
    pub(super) fn has_words(self, words: &[String]) -> bool {
        let all = self.words();
        words.is_empty() || all.windows(words.len()).any(|window| window == words)
    }

    /// Command and arguments; below a shell, the words of the script.
    pub(super) fn words(self) -> Vec<&'pod str> {
        shell::words(&self.container.words)
    }

    /// Command and arguments; below a shell, the words of the commands that run a program.
    pub(super) fn words_of(self, is_program: impl Fn(&str) -> bool) -> Vec<&'pod str> {
        shell::words_of(&self.container.words, is_program)
    }

    /// The program that decides how long the container runs: its first one, or below a
    /// shell the last one of the script.
    pub(super) fn program(self) -> Option<&'pod str> {
        shell::program(&self.container.words)
    }

    /// The base names of the words of its command or script, those of programs in the background among them.
    pub(super) fn commands(self) -> impl Iterator<Item = &'pod str> {
        self.words().into_iter().map(shell::base_name)
    }

    /// Whether the command is a script of a shell.
    pub(super) fn is_script(self) -> bool {
        shell::script_at(&self.container.words).is_some()
    }

    /// The value of a flag: `--port 1`, `--port=1`, or with one dash, as Go's flags allow.
    pub(super) fn flag(self, name: &str) -> Option<&'pod str> {
        let mut words = self.words().into_iter();
        while let Some(word) = words.next() {
            match flag(word, name) {
                Some(Some(value)) => return Some(value),
                Some(None) => return words.next(),
                None => {}
            }
        }
        None
    }

    /// All values of a flag, or with `?name` of a parameter in the words
    /// themselves: `project:region:instance?port=5432`.
    pub(super) fn flags(self, name: &str) -> Vec<&'pod str> {
        let Some(name) = name.strip_prefix('?') else {
            return self.flag(name).into_iter().collect();
        };
        self.words()
            .into_iter()
            .filter_map(|word| parameter(word, name))
            .collect()
    }

    /// Whether a flag that takes no value is set: `--x`, or `--x=true`.
    pub(super) fn is_set(self, name: &str) -> bool {
        let words = self.words();
        let last = words.iter().rev().find_map(|word| flag(word, name));
        last.is_some_and(|value| !value.is_some_and(is_false))
    }

    pub(super) fn env(self, name: &str) -> Option<&'pod str> {
        self.container.env.get(name).map(String::as_str)
    }

    /// The value of a variable, or with `NAME#/pointer` a value of its document.
    pub(super) fn env_at(self, place: &str) -> Option<Cow<'pod, str>> {
        value_at(place, |name| self.env(name))
    }

    /// The value of an annotation, or with `KEY#/pointer` a value of its document.
    pub(super) fn annotation_at(self, place: &str) -> Option<Cow<'pod, str>> {
        value_at(place, |key| self.annotation(key))
    }

    pub(super) fn annotation(self, key: &str) -> Option<&'pod str> {
        self.pod.annotations.get(key).map(String::as_str)
    }
}

/// The text of a place, or the value of its document that the pointer in the place names.
fn value_at<'pod>(place: &str, text: impl Fn(&str) -> Option<&'pod str>) -> Option<Cow<'pod, str>> {
    let Some((name, pointer)) = place.split_once('#') else {
        return text(place).map(Cow::Borrowed);
    };
    let document = text(name).filter(|text| text.len() <= LONGEST_DOCUMENT)?;
    let value = match parse(document)?.pointer(pointer)? {
        Value::String(text) => text.clone(),
        scalar @ (Value::Bool(_) | Value::Number(_)) => scalar.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(Cow::Owned(value))
}

/// Parses YAML, of which JSON is a part. A pod's owner writes the text, and aliases multiply its size.
fn parse(document: &str) -> Option<Value> {
    let options = options! {
        budget: budget! { max_aliases: 0, max_anchors: 0, max_nodes: MOST_NODES },
    };
    serde_saphyr::from_str_with_options(document, options).ok()
}

/// The value of a parameter of a word: `instance?port=5432&x=1`.
pub(super) fn parameter<'word>(word: &'word str, name: &str) -> Option<&'word str> {
    let (_word, parameters) = word.split_once('?')?;
    parameters
        .split('&')
        .filter_map(|one| one.split_once('='))
        .find(|(key, _value)| *key == name)
        .map(|(_key, value)| value)
}

/// The flag in a word: absent, present, or its value.
fn flag<'word>(word: &'word str, name: &str) -> Option<Option<&'word str>> {
    let rest = word.strip_prefix('-')?;
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    let rest = rest.strip_prefix(name.trim_start_matches('-'))?;
    if rest.is_empty() {
        return Some(None);
    }
    // In a script the value may have quotes of its own: `--port="1"`.
    rest.strip_prefix('=')
        .map(|value| Some(value.trim_matches(['"', '\''])))
}

/// Whether Go's flags read a value as false ([ParseBool](https://pkg.go.dev/strconv#ParseBool)).
fn is_false(value: &str) -> bool {
    matches!(value, "0" | "f" | "F" | "false" | "False" | "FALSE")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_port(document: &str) -> Option<String> {
        let value = value_at("CONFIG#/statusPort", |_name| Some(document))?;
        Some(value.into_owned())
    }

    #[test]
    fn only_scalars_are_values() {
        let table = [
            ("statusPort: 15021", Some("15021")),
            ("{\"statusPort\": \"15021\"}", Some("15021")),
            ("statusPort: true", Some("true")),
            ("statusPort:", None),
            ("statusPort: [1]", None),
            ("statusPort: {a: 1}", None),
            ("another: 1", None),
            ("{", None),
        ];
        for (document, expected) in table {
            assert_eq!(status_port(document).as_deref(), expected, "{document}");
        }
    }

    /// 5 KiB that are 48 MiB with their aliases expanded.
    #[test]
    fn a_document_that_grows_is_not_read() {
        let scalar = "x".repeat(4800);
        let tens = |name: &str| [name; 10].join(", ");
        let document = format!(
            "s: &s {scalar}\na: &a [{}]\nb: &b [{}]\nc: &c [{}]\nd: [{}]\nstatusPort: 1",
            tens("*s"),
            tens("*a"),
            tens("*b"),
            tens("*c")
        );
        assert!(document.len() < 6 * 1024);
        assert_eq!(parse(&document), None);
        assert_eq!(status_port(&document), None);
        // The same without aliases is read.
        assert_eq!(
            status_port(&format!("s: {scalar}\nstatusPort: 1")).as_deref(),
            Some("1")
        );
        let wide = format!("s: [{}]\nstatusPort: 1", vec!["1"; MOST_NODES].join(","));
        assert_eq!(status_port(&wide), None);
        let long = format!("s: {}\nstatusPort: 1", "x".repeat(LONGEST_DOCUMENT));
        assert_eq!(status_port(&long), None);
    }
}
