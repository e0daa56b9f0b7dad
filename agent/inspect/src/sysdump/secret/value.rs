//! The value of a secret name. It may have every character, so its end depends on its begin, and not on its characters.

use super::{Expected, Place, REDACTED, is_scheme, place::Quote};

/// A shorter word after `Bearer` or `Basic` is not a secret.
const MIN_CREDENTIALS: usize = 8;

/// A value, with the quotes around it and the rest of the line.
#[derive(Debug)]
pub(super) struct Value<'line> {
    pub(super) before: &'line str,
    pub(super) text: &'line str,
    pub(super) after: &'line str,
    pub(super) rest: &'line str,
}

impl<'line> Value<'line> {
    /// The value that a line begins with, if it begins with one.
    pub(super) fn split(line: &'line str, expected: Expected, place: &Place) -> Option<Self> {
        let first = line.chars().next().filter(|first| !first.is_whitespace())?;
        let is_quoted = || Quote::at(line).is_some();
        let end = match expected {
            Expected::Nothing | Expected::Named => return None,
            Expected::Rest if ['"', '\'', '\\'].contains(&first) => return None,
            Expected::Rest => content(line),
            Expected::Header => match place.open() {
                Some(quote) => quote.close(line).unwrap_or(content(line)),
                None => content(line),
            },
            Expected::Scheme if is_quoted() => return None,
            Expected::Value | Expected::Member | Expected::Argument if is_quoted() => {
                return Self::quoted(line);
            }
            Expected::Argument if first == '-' => return None,
            Expected::Member => member(line, first)?,
            Expected::Scheme if !is_credentials(&line[..plain(line, place)]) => return None,
            Expected::Scheme => plain(line, place),
            Expected::Value | Expected::Argument => with_credentials(line, place),
        };
        let (text, rest) = line.split_at(end);
        (!text.is_empty()).then_some(Self {
            before: "",
            text,
            after: "",
            rest,
        })
    }

    /// A value in quotes. Without the closing quote it reaches to the end of the line.
    fn quoted(line: &'line str) -> Option<Self> {
        let (quote, length) = Quote::at(line)?;
        let (before, rest) = line.split_at(length);
        let (text, rest) = rest.split_at(quote.close(rest).unwrap_or(content(rest)));
        let (after, rest) = rest.split_at(Quote::at(rest).map_or(0, |(_, length)| length));
        Some(Self {
            before,
            text,
            after,
            rest,
        })
    }
}

/// The length without the line break.
fn content(line: &str) -> usize {
    line.trim_end_matches('\n').len()
}

/// The length of a value without quotes: to the next blank, to the end of the quotes around it, or to the next parameter of
/// a URL.
fn plain(line: &str, place: &Place) -> usize {
    let ends = |letter: char| letter.is_whitespace() || letter == '&' && place.in_query();
    let text = &line[..line.find(ends).unwrap_or(line.len())];
    let closed = place.open().and_then(|quote| quote.close(text));
    closed.unwrap_or(text.len())
}

/// The length of a value without quotes. The credentials after `Bearer` or `Basic` belong to it.
fn with_credentials(line: &str, place: &Place) -> usize {
    let end = plain(line, place);
    let (scheme, rest) = line.split_at(end);
    let credentials = rest.trim_start_matches(' ');
    match is_scheme(scheme) && credentials.len() < rest.len() {
        true => line.len() - credentials.len() + plain(credentials, place),
        false => end,
    }
}

/// Whether the word after `Bearer` or `Basic` is a secret, or has another value in it.
fn is_credentials(word: &str) -> bool {
    let has_value = word.trim_end_matches(['=', ':']).contains(['=', ':']);
    word.len() >= MIN_CREDENTIALS || has_value
}

/// The length of a JSON value without quotes. An object has names for its own values. An array ends with the line, since a
/// string in it may have a bracket.
fn member(line: &str, first: char) -> Option<usize> {
    let ends = |next: char| ",}]".contains(next) || next.is_whitespace();
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with(ends);
    if line.strip_prefix(REDACTED).is_some_and(is_end) {
        return Some(REDACTED.len());
    }
    let is_of_literal = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    let literal = line.trim_start_matches(is_of_literal);
    let (literal, rest) = line.split_at(line.len() - literal.len());
    let is_literal = ["true", "false", "null"].contains(&literal) || literal.parse::<f64>().is_ok();
    match first {
        '{' => None,
        '[' => Some(content(line)),
        _ if is_literal && is_end(rest) => Some(literal.len()),
        _ => Some(line.find(char::is_whitespace).unwrap_or(line.len())),
    }
}
