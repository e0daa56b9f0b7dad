//! Private keys in texts that are not ours, in the armour of [RFC 7468](https://www.rfc-editor.org/rfc/rfc7468#section-2).

use super::secret::MARK;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// The text without private keys, from the line that begins one to the line that ends it, or to the end of the text, and how many there were.
///
/// What begins anything else is passed over alone, not with all up to the next end: that may be the end of a key.
pub(super) fn left_out(text: &str) -> (String, u64) {
    let (mut clean, mut rest, mut count) = (String::with_capacity(text.len()), text, 0);
    while let Some(at) = rest.find(BEGIN) {
        let (before, block) = rest.split_at(at);
        clean.push_str(before);
        let end = if is_private(&block[BEGIN.len()..]) {
            clean.push_str(MARK);
            count += 1;
            end_of_key(block)
        } else {
            clean.push_str(BEGIN);
            BEGIN.len()
        };
        rest = &block[end..];
    }
    clean.push_str(rest);
    (clean, count)
}

/// By the label after `-----BEGIN `. Only letters of a label count: nothing that is left out later can then make one.
fn is_private(block: &str) -> bool {
    let is_of_label = |letter: char| letter.is_ascii_alphanumeric() || letter == ' ';
    let label = block.split(|letter| !is_of_label(letter)).next();
    label.is_some_and(|label| label.contains("PRIVATE KEY"))
}

fn end_of_key(block: &str) -> usize {
    let end = block.find(END).and_then(|end| {
        let label = end + END.len();
        let dashes = block[label..].find(DASHES)?;
        Some(label + dashes + DASHES.len())
    });
    end.unwrap_or(block.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_begin_to_end() {
        for (text, expected, count) in [
            ("", "", 0),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb",
                "a\n[redacted]\nb",
                1,
            ),
            (
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\nMII",
                "[redacted]",
                1,
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nMII\n-----END P",
                "[redacted]",
                1,
            ),
        ] {
            let twice = left_out(&left_out(text).0);
            assert_eq!(left_out(text), (expected.to_owned(), count), "{text}");
            assert_eq!(twice, (expected.to_owned(), 0), "{text}");
        }
    }

    #[test]
    fn what_is_no_key_stays_and_hides_none() {
        for (text, expected) in [
            (
                "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
                "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
            ),
            ("-----BEGIN PUBLIC KEY-----", "-----BEGIN PUBLIC KEY-----"),
            (
                "-----BEGIN CERTIFICATE-----\nMII\n-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\nb",
                "-----BEGIN CERTIFICATE-----\nMII\n[redacted]\nb",
            ),
        ] {
            assert_eq!(left_out(text).0, expected);
        }
    }
}
