//! The version in a sidecar's reply. A sidecar determines the reply, so that nothing of it is kept but one short text.

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor},
};

/// The longest text that is taken for a version, in bytes.
const LONGEST: usize = 128;

/// The text at `pointer` ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)) in a JSON reply, where it may be a version.
/// Lists are not searched.
pub fn version_text(body: &[u8], pointer: &str) -> Option<String> {
    let mut document = serde_json::Deserializer::from_slice(body);
    let text = At(pointer).deserialize(&mut document).ok()?;
    document.end().ok()?;
    text.filter(|text| text.len() <= LONGEST)
}

/// Reads the text at this pointer, and skips everything else.
#[derive(Debug, Clone, Copy)]
struct At<'pointer>(&'pointer str);

impl<'document> DeserializeSeed<'document> for At<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'document>>(self, value: D) -> Result<Self::Value, D::Error> {
        if self.0.is_empty() {
            return String::deserialize(value).map(Some);
        }
        value.deserialize_map(self)
    }
}

impl<'document> Visitor<'document> for At<'_> {
    type Value = Option<String>;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'document>>(self, mut members: M) -> Result<Self::Value, M::Error> {
        let next = self.0.strip_prefix('/').map(|path| {
            let end = path.find('/').unwrap_or(path.len());
            path.split_at(end)
        });
        let (name, rest) = next.unwrap_or_default();
        let name = name.replace("~1", "/").replace("~0", "~");
        let mut found = None;
        while let Some(member) = members.next_key::<String>()? {
            if next.is_some() && member == name {
                found = members.next_value_seed(At(rest))?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &str, pointer: &str) -> Option<String> {
        version_text(body.as_bytes(), pointer)
    }

    #[test]
    fn text_at_a_pointer_is_found() {
        let body = r#"{"list":[{"v":"1"}],"n":{"deep":{"v":"1.2","v2":null},"v":2.5},"a/b":{"~":"3"},"t":"4"}"#;
        for (pointer, expected) in [
            ("/n/deep/v", Some("1.2")),
            ("/a~1b/~0", Some("3")),
            ("/t", Some("4")),
            ("/n/v", None),
            ("/n/deep", None),
            ("/n/deep/v2", None),
            ("/list/0/v", None),
            ("/t/x", None),
            ("/missing", None),
            ("", None),
        ] {
            assert_eq!(text(body, pointer).as_deref(), expected, "{pointer}");
        }
        assert_eq!(text(r#""1.20""#, "").as_deref(), Some("1.20"));
    }

    #[test]
    fn invalid_replies_have_no_version() {
        for body in [
            "",
            "{}",
            "[1]",
            r#"{"v":1}"#,
            r#"{"v":"1.2"} x"#,
            r#"{"v":"1.2""#,
        ] {
            assert_eq!(text(body, "/v"), None, "{body}");
        }
        assert_eq!(
            text(&format!(r#"{{"v":"{}"}}"#, "1".repeat(129)), "/v"),
            None
        );
        assert_eq!(text(&"[".repeat(100_000), "/v"), None);
    }
}
