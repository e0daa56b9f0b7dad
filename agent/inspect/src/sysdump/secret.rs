//! Finds texts that look like a secret. In doubt a text is redacted, except for paths.

mod place;
mod value;
mod word;

use self::{place::Place, value::Value, word::Word};
use super::{REDACTED, key};

/// A name with one of these parts has a secret as its value.
const SECRET_NAMES: [&str; 15] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "accountkey",
    "privatekey",
    "credential",
    "authorization",
    "cookie",
    "clientkeydata",
    "signature",
    "dsn",
];
/// A name with one of these words has a secret as its value. As a part of a longer word they mean something else: `bypass`.
const SECRET_WORDS: [&str; 2] = ["pass", "pwd"];
/// The working directory, in environments and in programs' output.
const DIRECTORY_NAMES: [&str; 2] = ["PWD", "pwd"];
/// A name with one of these suffixes has the location or the kind of a secret as its value, and not the secret.
const HARMLESS_SUFFIXES: [&str; 11] = [
    "file", "path", "dir", "url", "uri", "name", "type", "seconds", "port", "enabled", "count",
];
/// Prefixes of the tokens of well-known services.
const TOKEN_PREFIXES: [&str; 13] = [
    "AKIA",
    "ASIA",
    "AIza",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "sk_live_",
    "hvs.",
    "SG.",
];
const MIN_TOKEN: usize = 16;

/// Whether a value with this name is a secret: `DB_PASSWORD`, `--api-key`, `clientSecret`; not `TOKEN_FILE`.
pub(super) fn is_secret_name(name: &str) -> bool {
    let letters: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    let is_secret = SECRET_NAMES.iter().any(|part| letters.contains(part)) || has_secret_word(name);
    is_secret && !HARMLESS_SUFFIXES.iter().any(|end| letters.ends_with(end))
}

/// Whether a word of the name, as in `DB_PASS`, `--db-pass` or `dbPass`, is a secret word.
fn has_secret_word(name: &str) -> bool {
    let parts = || name.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_secret = |part: &str| {
        let is_word = |word: &&str| part.eq_ignore_ascii_case(word);
        let is_end = |word: &&str| {
            let begin = part.len().checked_sub(word.len());
            let end = begin.and_then(|begin| part.split_at_checked(begin));
            end.is_some_and(|(before, end)| {
                before.ends_with(|letter: char| letter.is_ascii_lowercase())
                    && end.starts_with(|letter: char| letter.is_ascii_uppercase())
                    && end[1..] == word[1..]
            })
        };
        SECRET_WORDS
            .iter()
            .any(|word| is_word(word) || is_end(word))
    };
    !DIRECTORY_NAMES.contains(&name) && parts().any(is_secret)
}

/// The name with `=`, and the value, of a word of a command line that is a secret: `--password=X` or `DB_PASSWORD=X`.
pub(super) fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, _) = word.split_once('=')?;
    (is_plain(name) && is_secret_name(name)).then(|| word.split_at(name.len() + 1))
}

fn is_plain(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    name.chars().all(is_plain)
}

/// The redacted text and the number of redactions; None if the text has nothing that looks like a secret.
pub(super) fn redact_text(text: &str) -> Option<(String, u64)> {
    let (text, mut count) = key::redact_keys(text);
    let mut clean = String::with_capacity(text.len());
    // The column of the last redacted YAML member: lines with a larger indentation belong to its value.
    let mut member = None;
    for line in text.split_inclusive('\n') {
        let content = line.trim_start_matches(' ');
        let is_blank = content.trim().is_empty();
        if member.is_some_and(|column| is_blank || line.len() - content.len() > column) {
            clean.push_str(if is_blank { line } else { "" });
            continue;
        }
        let name = yaml_member(line);
        member = name.map(|name| name.len() - name.trim_start_matches([' ', '-']).len());
        count += match name {
            Some(name) => {
                clean.push_str(name);
                clean.push_str(REDACTED);
                clean.extend(line.ends_with('\n').then_some('\n'));
                1
            }
            None => self::line(line, &mut clean),
        };
    }
    (count > 0).then_some((clean, count))
}

/// The line up to the value, if the line is a YAML member with a secret name and a value: `  DB_PASSWORD: hunter2`.
fn yaml_member(line: &str) -> Option<&str> {
    let (before, value) = line.split_once(": ")?;
    let name = before.trim_start_matches([' ', '-']);
    let is_secret = is_plain(name) && is_secret_name(name);
    let is_value = !["", REDACTED].contains(&value.trim());
    (is_secret && is_value).then(|| &line[..before.len() + 2])
}

/// Redacts one line, word by word. A word ends at a character that is neither part of a token nor of a name; a value reaches
/// further.
fn line(line: &str, clean: &mut String) -> u64 {
    let (mut rest, mut count) = (line, 0);
    // What the previous words predict about the next one.
    let mut expected = Expected::Nothing;
    let mut place = Place::default();
    while !rest.is_empty() {
        if expected.is_value() && place.is_closed_by(rest) {
            expected = Expected::Nothing;
        }
        if let Some(value) = Value::split(rest, expected, &place) {
            clean.push_str(value.before);
            clean.push_str(if value.text.is_empty() { "" } else { REDACTED });
            clean.push_str(value.after);
            // A redacted value does not count twice.
            count += u64::from(!["", REDACTED].contains(&value.text));
            rest = value.rest;
            place.skip();
            expected = Expected::Nothing;
            continue;
        }
        let Word {
            text,
            end,
            rest: next,
        } = Word::split(rest, place.quote());
        let redacted = match is_token(text) {
            true => Some(REDACTED.to_owned()),
            false => without_user(text),
        };
        count += u64::from(redacted.is_some());
        // Only the redacted word counts, so that the same line has the same words when it is redacted again.
        let text = redacted.as_deref().unwrap_or(text);
        clean.push_str(text);
        clean.push_str(end);
        expected = expected.after(text, end, &place);
        place.advance(text, end);
        rest = next;
    }
    count
}

/// What the previous words predict about the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Nothing,
    /// The previous word is a secret name in quotes or before a blank; after a colon or an equals sign the next one is its
    /// value.
    Named,
    /// The value of a secret name after an equals sign.
    Value,
    /// The value of a quoted secret name after a colon.
    Member,
    /// The value of a secret flag, which may be missing.
    Argument,
    /// The value of a header in quotes.
    Header,
    /// The value of a known header: the rest of the line.
    Rest,
    /// The credentials after `Bearer` or `Basic`.
    Scheme,
}

impl Expected {
    /// Whether the value may be in the quotes around its name.
    fn is_value(self) -> bool {
        !matches!(self, Self::Named | Self::Rest)
    }

    fn after(self, text: &str, end: &str, place: &Place) -> Self {
        if is_scheme(text) && end == " " {
            return Self::Scheme;
        }
        let is_quote = ["\"", "'", "\\"].contains(&end);
        // Blanks, quotes and a colon may separate a name and its value: "token": "a". The words between them are empty.
        let is_between = end.trim().is_empty() || is_quote;
        match (self, end) {
            (Self::Named, ":") if text.is_empty() => Self::Member,
            (Self::Named, "=") if text.is_empty() => Self::Value,
            (Self::Nothing | Self::Scheme, _) if text.is_empty() => Self::Nothing,
            (_, _) if text.is_empty() && is_between => self,
            (_, " ") if text.starts_with('-') && is_secret_name(text) => Self::Argument,
            (_, "=") if is_secret_name(text) => Self::Value,
            (_, ":") if is_header(text) => Self::Rest,
            (_, ":") if place.is_quoted() && is_secret_name(text) => Self::Header,
            (_, _) if is_between && is_secret_name(text) => Self::Named,
            _ => Self::Nothing,
        }
    }
}

/// Headers with a secret as their value.
fn is_header(name: &str) -> bool {
    let headers = [
        "authorization",
        "proxy-authorization",
        "cookie",
        "set-cookie",
        "x-api-key",
        "x-vault-token",
        "dapr-api-token",
    ];
    headers.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known))
}

/// Whether a word has the form of a token: a JSON Web Token, or one with a well-known prefix.
fn is_token(word: &str) -> bool {
    let is_of_token = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if word.len() < MIN_TOKEN || !word.chars().all(is_of_token) {
        return false;
    }
    let web = word.starts_with("eyJ") && word.matches('.').count() >= 2;
    web || TOKEN_PREFIXES.iter().any(|begin| word.starts_with(begin))
}

/// A URL without its user and password.
fn without_user(word: &str) -> Option<String> {
    let at = word.find("://")? + 3;
    let (scheme, rest) = word.split_at(at);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let user = rest[..end].rfind('@')?;
    // The user was redacted earlier.
    let is_redacted = &rest[..user] == REDACTED;
    (!is_redacted).then(|| format!("{scheme}{REDACTED}{}", &rest[user..]))
}

#[cfg(test)]
mod tests;
