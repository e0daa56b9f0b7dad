//! Annotations and variables of a pod, of which only those are kept that a recipe or usher reads, and arguments
//! within limits.
//!
//! They can be the largest part of a pod. Each is parsed element by element, so that what is not kept is never all in memory.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Error, value::RawValue};

use crate::{
    recipe::Reads,
    settings::{annotation, bound},
};

/// Arguments of a container that are kept, and bytes of each. The commands of sidecars are far shorter; the script of an app may
/// be longer.
const MOST_WORDS: usize = 1024;
const LONGEST_WORD: usize = 16 * 1024;

/// Limit of the kept annotations with usher's prefix, besides usher's own.
const MOST_ANNOTATIONS: usize = 128;

/// The annotations that usher or a recipe reads.
pub(super) fn annotations(
    json: &RawValue,
    reads: &Reads,
) -> Result<BTreeMap<String, String>, Error> {
    serde_json::Deserializer::from_str(json.get()).deserialize_map(Annotations(reads))
}

/// The variables with a literal value that a recipe reads.
pub(super) fn env(json: &RawValue, reads: &Reads) -> Result<BTreeMap<String, String>, Error> {
    serde_json::Deserializer::from_str(json.get()).deserialize_seq(Env(reads))
}

/// The first words of a command and its arguments, and the beginning of each.
pub(super) fn words(lists: [Option<&RawValue>; 2]) -> Result<Vec<String>, Error> {
    let mut words = Words(Vec::new());
    for json in lists.into_iter().flatten() {
        serde_json::Deserializer::from_str(json.get()).deserialize_seq(&mut words)?;
    }
    words.0.shrink_to_fit();
    Ok(words.0)
}

struct Annotations<'reads>(&'reads Reads);

impl<'json> Visitor<'json> for Annotations<'_> {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("annotations")
    }

    fn visit_map<A: MapAccess<'json>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut kept = BTreeMap::new();
        let mut own = 0;
        while let Some((key, value)) = members.next_entry::<Cow<'_, str>, Cow<'_, str>>()? {
            let is_own = key.starts_with(annotation::PREFIX);
            own += usize::from(is_own);
            let is_kept = is_own && own <= MOST_ANNOTATIONS
                || annotation::KNOWN.iter().any(|known| known.key == key)
                || self.0.annotations.contains(&*key);
            if is_kept {
                kept.insert(key.into_owned(), bound::shortened(value, bound::POD_VALUE));
            }
        }
        Ok(kept)
    }
}

struct Env<'reads>(&'reads Reads);

#[derive(Deserialize)]
struct Variable<'json> {
    #[serde(borrow)]
    name: Cow<'json, str>,
    value: Option<Cow<'json, str>>,
}

impl<'json> Visitor<'json> for Env<'_> {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of variables")
    }

    fn visit_seq<A: SeqAccess<'json>>(self, mut variables: A) -> Result<Self::Value, A::Error> {
        let mut kept = BTreeMap::new();
        while let Some(variable) = variables.next_element::<Variable<'_>>()? {
            if let Some(value) = variable.value
                && self.0.env.contains(&*variable.name)
            {
                kept.insert(variable.name.into_owned(), value.into_owned());
            }
        }
        Ok(kept)
    }
}

struct Words(Vec<String>);

impl<'json> Visitor<'json> for &mut Words {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of arguments")
    }

    fn visit_seq<A: SeqAccess<'json>>(self, mut words: A) -> Result<(), A::Error> {
        while let Some(mut word) = words.next_element::<String>()? {
            if self.0.len() < MOST_WORDS {
                word.truncate(word.floor_char_boundary(LONGEST_WORD));
                word.shrink_to_fit();
                self.0.push(word);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_bounded() {
        let raw = |text: String| RawValue::from_string(text).unwrap();
        let command = raw(r#"["sh","-c"]"#.to_owned());
        let args = raw(format!(
            r#"["a{}"{}]"#,
            "é".repeat(LONGEST_WORD),
            r#","b""#.repeat(MOST_WORDS)
        ));
        let words = words([Some(&command), Some(&args)]).unwrap();
        assert_eq!(words.len(), MOST_WORDS);
        assert_eq!(words[..2], ["sh", "-c"]);
        assert_eq!(words[2].len(), LONGEST_WORD - 1);
        assert_eq!(words[3], "b");
    }
}
