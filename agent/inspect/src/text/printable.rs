//! Escapes text from pods for a terminal.
//!
//! Names of processes, headers and bodies come from pods. A terminal interprets control characters
//! ([ECMA-48](https://ecma-international.org/publications-and-standards/standards/ecma-48/)), including the C1 set, and
//! reorders text at bidirectional characters ([UAX #9](https://www.unicode.org/reports/tr9/)): a pod could clear the
//! screen, answer a prompt, or make one line look like another. These characters are replaced by escapes with their
//! numbers.

pub mod yaml;

use std::borrow::Cow;

/// The text on one line. Escapes every character that a terminal interprets.
pub fn clean(text: &str) -> Cow<'_, str> {
    escape(text, is_harmless, |character| match character {
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        control if control < '\u{80}' => format!("\\x{:02x}", u32::from(control)),
        other => format!("\\u{{{:x}}}", u32::from(other)),
    })
}

/// A text of at most this many characters; a longer one ends with an ellipsis.
pub fn shortened(text: &str, longest: usize) -> Cow<'_, str> {
    match text.char_indices().nth(longest) {
        None => Cow::Borrowed(text),
        Some((end, _next)) => {
            let kept = text.get(..end).unwrap_or_default();
            Cow::Owned(format!("{kept}…"))
        }
    }
}

/// A JSON text. Escapes every character that a terminal interprets. The JSON writer escapes those below U+0020; the
/// others can be in strings only, where `\u` and four digits mean the same. For YAML see [`yaml::write`].
pub fn clean_document(text: &str) -> Cow<'_, str> {
    let fits = |character: char| character == '\n' || is_harmless(character);
    escape(text, fits, |character| {
        let units = character.encode_utf16(&mut [0; 2]).to_vec();
        let escapes = units.iter().map(|unit| format!("\\u{unit:04x}"));
        escapes.collect()
    })
}

/// Replaces every character that `fits` rejects.
fn escape(
    text: &str,
    fits: impl Fn(char) -> bool,
    escaped: impl Fn(char) -> String,
) -> Cow<'_, str> {
    if text.chars().all(&fits) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if fits(character) {
            shown.push(character);
        } else {
            shown.push_str(&escaped(character));
        }
    }
    Cow::Owned(shown)
}

fn is_harmless(character: char) -> bool {
    let acts = character.is_control()
        || matches!(character,
            // Bidirectional marks, embeddings, overrides and isolates.
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line and paragraph separators.
            | '\u{2028}' | '\u{2029}'
            // Invisible characters.
            | '\u{00ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}');
    !acts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let shown = [
            ("istio-proxy", "istio-proxy"),
            ("größe 尺寸", "größe 尺寸"),
            ("a\x1b[2Jb", "a\\x1b[2Jb"),
            ("line\nline\ttab\r", "line\\nline\\ttab\\r"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("txt.\u{202e}exe", "txt.\\u{202e}exe"),
            ("\x7f\u{0}\u{80}", "\\x7f\\x00\\u{80}"),
            ("\x08", "\\x08"),
        ];
        for (text, expected) in shown {
            assert_eq!(clean(text), expected);
        }
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("abcd", 3), "abc…");
    }

    #[test]
    fn escaped_documents_have_the_same_value() {
        let value = serde_json::json!({"a": "\u{9b}\u{202e}\u{7f}\u{e0001}é\n"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = clean_document(&text);
        assert!(
            shown
                .chars()
                .all(|character| character == '\n' || is_harmless(character))
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    proptest! {
        #[test]
        fn every_text_becomes_harmless(text in any::<String>()) {
            prop_assert!(clean(&text).chars().all(is_harmless));
        }
    }
}
