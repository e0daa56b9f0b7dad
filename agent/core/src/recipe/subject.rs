//! The container that a recipe is applied to, and what can be read off it.

use super::Version;
use crate::pod::spec::{Container, Pod};

/// One container of one pod.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'pod> {
    pub pod: &'pod Pod,
    pub container: &'pod Container,
    /// Version of what runs in it, where known.
    pub version: Option<Version>,
}

impl<'pod> Subject<'pod> {
    /// Whether these words stand one after the other in the command and its
    /// arguments.
    pub(super) fn has_words(self, words: &[String]) -> bool {
        let found = || {
            let all = &self.container.words;
            all.windows(words.len()).any(|window| window == words)
        };
        words.is_empty() || found()
    }

    /// The value of a flag: `--port 1`, `--port=1`, or with one dash, as Go's
    /// flags allow.
    pub(super) fn flag(self, name: &str) -> Option<&'pod str> {
        let mut words = self.container.words.iter();
        while let Some(word) = words.next() {
            match flag(word, name) {
                Some(Some(value)) => return Some(value),
                Some(None) => return words.next().map(String::as_str),
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
        let words = self.container.words.iter();
        let parameters = words.filter_map(|word| word.split_once('?'));
        parameters
            .flat_map(|(_word, all)| all.split('&'))
            .filter_map(|one| one.split_once('='))
            .filter(|(key, _value)| *key == name)
            .map(|(_key, value)| value)
            .collect()
    }

    /// Whether a flag that takes no value is set: `--x`, or `--x=true`.
    pub(super) fn is_set(self, name: &str) -> bool {
        let mut words = self.container.words.iter().rev();
        let last = words.find_map(|word| flag(word, name));
        last.is_some_and(|value| !matches!(value, Some("false" | "0")))
    }

    pub(super) fn env(self, name: &str) -> Option<&'pod str> {
        self.container.env.get(name).map(String::as_str)
    }

    pub(super) fn annotation(self, key: &str) -> Option<&'pod str> {
        self.pod.annotations.get(key).map(String::as_str)
    }
}

/// What a word says of a flag: nothing, that it is there, or its value.
fn flag<'word>(word: &'word str, name: &str) -> Option<Option<&'word str>> {
    let rest = word.strip_prefix('-')?;
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    let rest = rest.strip_prefix(name.trim_start_matches('-'))?;
    if rest.is_empty() {
        return Some(None);
    }
    rest.strip_prefix('=').map(Some)
}
