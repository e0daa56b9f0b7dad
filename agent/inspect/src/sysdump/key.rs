//! Removes private keys in PEM format, [RFC 7468](https://www.rfc-editor.org/rfc/rfc7468#section-2).

use super::REDACTED;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// The text without private keys, and their number. A key reaches from its BEGIN line to its END line, or to the end of the
/// text.
///
/// For any other PEM block only the BEGIN marker is skipped: the next END marker may be that of a key.
pub(super) fn redact_keys(text: &str) -> (String, u64) {
    let (mut clean, mut rest, mut count) = (String::with_capacity(text.len()), text, 0);
    while let Some(at) = rest.find(BEGIN) {
        let (before, block) = rest.split_at(at);
        clean.push_str(before);
        let end = if is_private(&block[BEGIN.len()..]) {
            clean.push_str(REDACTED);
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

/// Whether the label after `-----BEGIN ` is that of a private key. Only characters of a label are read, so that a later
/// redaction cannot create a label.
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
    fn keys_are_redacted_from_begin_to_end() {
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
            let twice = redact_keys(&redact_keys(text).0);
            assert_eq!(redact_keys(text), (expected.to_owned(), count), "{text}");
            assert_eq!(twice, (expected.to_owned(), 0), "{text}");
        }
    }

    #[test]
    fn other_blocks_are_kept_and_hide_no_key() {
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
            assert_eq!(redact_keys(text).0, expected);
        }
    }
}
