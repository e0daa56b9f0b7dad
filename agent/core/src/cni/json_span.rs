//! Byte ranges of the parts of a JSON text, so that one part can be changed and every other byte stays.
//!
//! The texts belong to other programs, so numbers that fit no machine type, duplicate keys, lone surrogates and
//! spacing must stay. Nothing is converted to values and back: `serde_json` checks the whole text and gives the place
//! of each part ([`RawValue`] borrows it). Of duplicate keys, Go's parser, which the runtimes use, takes the last
//! one, and so does [`last`].

use std::{borrow::Cow, fmt, ops::Range};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Go's limit of nesting; the runtimes cannot read deeper texts.
const DEEPEST: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Object,
    Array,
    Text,
    Number,
    Bool,
    Null,
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Bool => "a boolean",
            Self::Null => "null",
        })
    }
}

/// One `"key": value` of an object, as byte ranges of the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The key without its quotes and escapes. Empty where it has no such form (a lone surrogate); no caller searches
    /// for such a key.
    pub(crate) key: String,
    /// From the key to the end of the value.
    pub(crate) whole: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// Checks that `text` is one JSON value, and returns its range without the white space around it.
pub(crate) fn value(text: &str) -> Result<Range<usize>, serde_json::Error> {
    let raw: &RawValue = serde_json::from_str(text)?;
    if depth(raw.get()) > DEEPEST {
        return Err(serde::de::Error::custom(format_args!(
            "nested deeper than {DEEPEST}"
        )));
    }
    Ok(span(text, raw.get()))
}

/// The shape of a value, by its first byte.
pub(crate) fn shape(value: &str) -> Shape {
    match value.as_bytes().first() {
        Some(b'{') => Shape::Object,
        Some(b'[') => Shape::Array,
        Some(b'"') => Shape::Text,
        Some(b't' | b'f') => Shape::Bool,
        Some(b'n') => Shape::Null,
        _ => Shape::Number,
    }
}

/// The members of the object at `at`, in their order; an error where there is no object.
pub(crate) fn members(text: &str, at: &Range<usize>) -> Result<Vec<Member>, serde_json::Error> {
    let members: Members<'_> = serde_json::from_str(&text[at.clone()])?;
    let member = |(key, value): (&RawValue, &RawValue)| {
        let value = span(text, value.get());
        Member {
            key: serde_json::from_str(key.get()).unwrap_or_default(),
            whole: span(text, key.get()).start..value.end,
            value,
        }
    };
    Ok(members.0.into_iter().map(member).collect())
}

/// The elements of the array at `at`; an error where there is no array.
pub(crate) fn elements(
    text: &str,
    at: &Range<usize>,
) -> Result<Vec<Range<usize>>, serde_json::Error> {
    let elements: Vec<&RawValue> = serde_json::from_str(&text[at.clone()])?;
    let spans = elements.iter().map(|element| span(text, element.get()));
    Ok(spans.collect())
}

/// The effective member with this key.
pub(crate) fn last<'a>(members: &'a [Member], key: &str) -> Option<&'a Member> {
    members.iter().rev().find(|member| member.key == key)
}

/// The object or array at `outer` without some of its `parts`. The others keep the separators before them, so that a
/// part that was appended with one can be removed without a trace.
pub(crate) fn without(
    text: &str,
    outer: &Range<usize>,
    parts: &[Range<usize>],
    goes: impl Fn(usize) -> bool,
) -> String {
    let (Some(first), Some(end)) = (parts.first(), parts.last()) else {
        return text[outer.clone()].to_owned();
    };
    let mut kept = text[outer.start..first.start].to_owned();
    let before = kept.len();
    let mut previous_end = first.start;
    for (index, part) in parts.iter().enumerate() {
        if !goes(index) {
            let from = if kept.len() == before {
                part.start
            } else {
                previous_end
            };
            kept.push_str(&text[from..part.end]);
        }
        previous_end = part.end;
    }
    kept.push_str(&text[end.end..outer.end]);
    kept
}

/// Whether a key or a string of valid JSON, at any depth, is `wanted`.
pub(crate) fn has_string(json: &str, wanted: &str) -> bool {
    let mut rest = json;
    while let Some(start) = rest.find('"') {
        rest = &rest[start..];
        let mut bytes = rest.bytes();
        bytes.next();
        skip_text(&mut bytes);
        let (quoted, after) = rest.split_at(rest.len() - bytes.len());
        if serde_json::from_str::<Cow<'_, str>>(quoted).is_ok_and(|text| text == wanted) {
            return true;
        }
        rest = after;
    }
    false
}

/// The range of `part`, which was borrowed from `text`.
fn span(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

/// The nesting depth of valid JSON.
fn depth(json: &str) -> usize {
    let (mut now, mut deepest) = (0_usize, 0);
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => now += 1,
            b'}' | b']' => now = now.saturating_sub(1),
            b'"' => skip_text(&mut bytes),
            _ => {}
        }
        deepest = deepest.max(now);
    }
    deepest
}

/// Skips the rest of a string, after its opening quote.
fn skip_text(bytes: &mut impl Iterator<Item = u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return,
            _ => {}
        }
    }
}

struct Members<'text>(Vec<(&'text RawValue, &'text RawValue)>);

impl<'text> Deserialize<'text> for Members<'text> {
    fn deserialize<D: Deserializer<'text>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'text> Visitor<'text> for InOrder {
            type Value = Members<'text>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'text>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_where_they_are() {
        let text =
            " {\"a\" : 1e400 , \"\\u0062\":[ 1 ,{}],\"a\":\"\\ud800\", \"\\ud800\": null}\r\n";
        let whole = value(text).unwrap();
        assert_eq!(whole, 1..text.len() - 2);
        let members = members(text, &whole).unwrap();
        let keys: Vec<&str> = members.iter().map(|member| &member.key[..]).collect();
        assert_eq!(keys, ["a", "b", "a", ""]);
        let value_of = |key| &text[last(&members, key).unwrap().value.clone()];
        assert_eq!(value_of("a"), "\"\\ud800\"");
        assert_eq!(&text[members[0].whole.clone()], "\"a\" : 1e400");
        let spans = elements(text, &members[1].value).unwrap();
        let parts: Vec<&str> = spans.into_iter().map(|at| &text[at]).collect();
        assert_eq!(parts, ["1", "{}"]);
    }

    #[test]
    fn only_objects_have_members() {
        for (text, found) in [("[1]", "sequence"), ("null", "null"), ("1", "integer `1`")] {
            let error = members(text, &(0..text.len())).unwrap_err().to_string();
            let expected = format!("invalid type: {found}, expected an object at ");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn removed_parts_include_their_separator() {
        let text = "[ a,b , c ]";
        let parts = [2..3, 4..5, 8..9];
        let left = |gone: &[usize]| without(text, &(0..11), &parts, |index| gone.contains(&index));
        assert_eq!(left(&[]), text);
        assert_eq!(left(&[0]), "[ b , c ]");
        assert_eq!(left(&[1]), "[ a , c ]");
        assert_eq!(left(&[2]), "[ a,b ]");
        assert_eq!(left(&[0, 1]), "[ c ]");
        assert_eq!(left(&[0, 1, 2]), "[  ]");
        assert_eq!(without("[ ]", &(0..3), &[], |_| true), "[ ]");
    }

    #[test]
    fn depth_is_bounded_as_in_go() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(value(&nested(DEEPEST)).is_ok());
        assert!(value(&nested(DEEPEST + 1)).is_err());
        for (text, expected) in [
            ("1", 0),
            ("{\"[[[\\\"[\":[\"]\",{}]}", 3),
            ("[[],{},[],[{}]]", 3),
        ] {
            assert_eq!(depth(text), expected, "{text}");
        }
    }

    #[test]
    fn strings_are_found_at_any_depth() {
        let cases = [
            ("\"b\"", true),
            ("{\"a\":[{\"a\":[1,{\"a\" : \"b\"}]}]}", true),
            ("[\"\\u0062\"]", true),
            ("{\"b\":1}", true),
            ("[\"ab\",\"b \",\"\\\"b\\\"\",\"/b\",\"\\ud800\"]", false),
            ("[\"\u{e9}\\\\\",\"b\"]", true),
            ("1e400", false),
        ];
        for (json, expected) in cases {
            assert_eq!(has_string(json, "b"), expected, "{json}");
        }
    }

    #[test]
    fn shapes() {
        let cases = [
            ("{}", Shape::Object),
            ("[]", Shape::Array),
            ("\"\"", Shape::Text),
            ("-1", Shape::Number),
            ("1", Shape::Number),
            ("true", Shape::Bool),
            ("false", Shape::Bool),
            ("null", Shape::Null),
        ];
        for (text, expected) in cases {
            assert_eq!(shape(text), expected);
        }
    }
}
