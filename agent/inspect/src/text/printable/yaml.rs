//! YAML with the same value, and without characters that a terminal interprets.
//!
//! Only double-quoted scalars support escapes ([YAML 1.2.2, 5.7](https://yaml.org/spec/1.2.2/#57-escaped-characters)),
//! so block scalars are not used, and a document that needs an escape in a plain scalar is written as JSON, where every
//! text is quoted. JSON is YAML except for characters beyond U+FFFF: JSON uses a pair of `\u`, and YAML uses `\U`.

use std::borrow::Cow;

use serde::{Serialize, ser::Error as _};
use serde_saphyr::{ser::Error, ser_options};

use super::{escape, is_harmless};

/// Characters that are harmless on a terminal, but not allowed in YAML.
const NOT_PRINTABLE: [char; 2] = ['\u{fffe}', '\u{ffff}'];

pub fn write(value: &impl Serialize) -> Result<String, Error> {
    let options = ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(value, options)?;
    if text.chars().all(fits) {
        return Ok(text);
    }
    let text = serde_json::to_string_pretty(value).map_err(Error::custom)?;
    Ok(format!("{}\n", escaped(&text)))
}

/// A JSON text with the escapes of YAML.
fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, fits, |character| match u32::from(character) {
        short @ ..=0xffff => format!("\\u{short:04x}"),
        long => format!("\\U{long:08x}"),
    })
}

fn fits(character: char) -> bool {
    character == '\n' || is_harmless(character) && !NOT_PRINTABLE.contains(&character)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Pieces that are special in YAML, on a terminal, or nowhere.
    const PIECES: [&str; 40] = [
        "a",
        "é",
        " ",
        "  ",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\0",
        "\x07",
        "\x1b[2J",
        "\x7f",
        "\u{80}",
        "\u{85}",
        "\u{9b}",
        "\u{ad}",
        "\u{200b}",
        "\u{202e}",
        "\u{2028}",
        "\u{2029}",
        "\u{2066}",
        "\u{feff}",
        "\u{fffd}",
        "\u{fffe}",
        "\u{ffff}",
        "\u{e0001}",
        "\u{1f980}",
        "\u{10ffff}",
        "\\",
        "\\u0041",
        "\"",
        "'",
        ":",
        "- ",
        "#",
        "null",
        "1",
        "{",
        "&",
        "---",
    ];

    fn text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            3 => prop::sample::select(PIECES.as_slice()).prop_map(str::to_owned),
            1 => any::<char>().prop_map(String::from),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    #[test]
    fn text_without_escapes_is_plain_yaml() {
        let value =
            serde_json::json!({"table": "table {\n\tset a\n}\n", "pod": "größe", "count": 1});
        assert_eq!(
            write(&value).unwrap(),
            "count: 1\npod: größe\ntable: \"table {\\n\\tset a\\n}\\n\"\n"
        );
    }

    #[test]
    fn text_with_escapes_is_quoted() {
        let value = BTreeMap::from([("a", "\u{202e}b\u{e0001}\u{1f980}\n")]);
        assert_eq!(
            write(&value).unwrap(),
            "{\n  \"a\": \"\\u202eb\\U000e0001\u{1f980}\\n\"\n}\n"
        );
    }

    proptest! {
        #[test]
        fn value_is_the_same_and_harmless(
            value in prop::collection::btree_map(text(), prop::collection::vec(text(), 0..4), 0..4)
        ) {
            let shown = write(&value).unwrap();
            prop_assert!(shown.chars().all(fits), "{shown:?}");
            let read: BTreeMap<String, Vec<String>> = serde_saphyr::from_str(&shown).unwrap();
            prop_assert_eq!(read, value, "{:?}", shown);
        }
    }
}
