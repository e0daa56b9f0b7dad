//! External text in a note: bounded, without control characters.

/// Marks a truncated text.
const MORE: &str = "...";

/// Truncates a text to `bytes` and escapes control characters, bidirectional controls and invisible characters.
pub(super) fn bounded(text: &str, bytes: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(bytes));
    // The last position that leaves room for the mark.
    let mut end = 0;
    for character in text.chars() {
        if is_harmless(character) {
            clean.push(character);
        } else {
            clean.extend(character.escape_unicode());
        }
        if clean.len() > bytes {
            clean.truncate(end);
            clean.push_str(MORE);
            return clean;
        }
        if clean.len() + MORE.len() <= bytes {
            end = clean.len();
        }
    }
    clean
}

fn is_harmless(character: char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_texts_are_truncated_and_controls_are_escaped() {
        assert_eq!(bounded("plain, äöü", 20), "plain, äöü");
        assert_eq!(bounded("0123456789", 10), "0123456789");
        assert_eq!(bounded("0123456789a", 10), "0123456...");
        assert_eq!(bounded("a\nb\u{1b}[2J", 40), "a\\u{a}b\\u{1b}[2J");
        assert_eq!(bounded("\u{202e}gpj.exe", 40), "\\u{202e}gpj.exe");
    }

    proptest! {
        #[test]
        fn the_result_is_bounded_and_harmless(text: String, bytes in 3..2000_usize) {
            let clean = bounded(&text, bytes);
            prop_assert!(clean.len() <= bytes);
            prop_assert!(clean.chars().all(is_harmless));
        }
    }
}
