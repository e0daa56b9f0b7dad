//! Finds texts that look like a secret. In doubt a text is redacted, except for paths.

use super::{REDACTED, key};

/// A name with one of these parts has a secret as its value.
const SECRET_NAMES: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "authorization",
    "cookie",
    "clientkeydata",
    "signature",
    "dsn",
];
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
    let is_secret = SECRET_NAMES.iter().any(|part| letters.contains(part));
    is_secret && !HARMLESS_SUFFIXES.iter().any(|end| letters.ends_with(end))
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
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_secret = name.chars().all(is_plain) && is_secret_name(name);
    let is_value = !["", REDACTED].contains(&value.trim());
    (is_secret && is_value).then(|| &line[..before.len() + 2])
}

/// Redacts one line, word by word. A word ends at a character that is neither part of a token nor of a name.
fn line(line: &str, clean: &mut String) -> u64 {
    let mut count = 0;
    // What the previous words predict about the next one.
    let mut expected = Expected::Nothing;
    for word in Words(line) {
        let Word { text, end } = word;
        let is_secret = match expected {
            Expected::Nothing | Expected::Named => is_token(text),
            Expected::Value => !text.is_empty() && text != REDACTED,
            Expected::Argument => !text.is_empty() && text != REDACTED && !text.starts_with('-'),
            Expected::Scheme => text.len() >= 8 && text != REDACTED,
            Expected::Rest => !text.is_empty(),
        };
        if is_secret && expected == Expected::Rest {
            clean.push_str(REDACTED);
            if line.ends_with('\n') {
                clean.push('\n');
            }
            // A redacted word does not count twice.
            return count + u64::from(text != REDACTED);
        }
        if is_secret {
            clean.push_str(REDACTED);
            count += 1;
        } else if let Some(without) = without_user(text) {
            clean.push_str(&without);
            count += 1;
        } else {
            clean.push_str(text);
        }
        clean.push_str(end);
        expected = expected.after(text, end);
    }
    count
}

/// What the previous words predict about the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Nothing,
    /// The previous word is a quoted secret name; after a colon the next one is its value.
    Named,
    /// The value of a secret name.
    Value,
    /// The value of a secret flag, which may be missing.
    Argument,
    /// The value of a secret header: the rest of the line.
    Rest,
    /// The credentials after `Bearer` or `Basic`.
    Scheme,
}

impl Expected {
    fn after(self, text: &str, end: &str) -> Self {
        if is_scheme(text) && end == " " {
            return Self::Scheme;
        }
        // Blanks, quotes and a colon may separate a name and its value: "token": "a". The words between them are empty.
        let is_between = ["", " ", "\"", "'", "\\"].contains(&end);
        match (self, end) {
            (Self::Named, ":") if text.is_empty() => Self::Value,
            (Self::Named | Self::Value | Self::Argument | Self::Rest, _)
                if text.is_empty() && is_between =>
            {
                self
            }
            (_, " ") if text.starts_with('-') && is_secret_name(text) => Self::Argument,
            (_, "=") if is_secret_name(text) => Self::Value,
            (_, ":") if is_header(text) => Self::Rest,
            (_, "\"" | "'" | "\\") if is_secret_name(text) => Self::Named,
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

/// A word and the character that ends it.
struct Word<'text> {
    text: &'text str,
    end: &'text str,
}

struct Words<'text>(&'text str);

impl<'text> Iterator for Words<'text> {
    type Item = Word<'text>;

    fn next(&mut self) -> Option<Word<'text>> {
        if self.0.is_empty() {
            return None;
        }
        let mut is_url = false;
        let mut letters = self.0.char_indices();
        let end = letters.find(|(at, letter)| match letter {
            // A colon does not end a word in a URL, where it may separate a user and a password.
            ':' => {
                is_url |= self.0[*at..].starts_with("://");
                !is_url
            }
            letter => ends(*letter),
        });
        let at = end.map_or(self.0.len(), |(at, _)| at);
        let (text, rest) = self.0.split_at(at);
        let next = rest.char_indices().nth(1);
        let (end, rest) = rest.split_at(next.map_or(rest.len(), |(at, _)| at));
        self.0 = rest;
        Some(Word { text, end })
    }
}

/// Whether the character ends every kind of word.
fn ends(letter: char) -> bool {
    "=,;&\"'\\(){}<>".contains(letter) || letter.is_whitespace() || letter.is_control()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> String {
        redact_text(text).map_or_else(|| text.to_owned(), |(clean, _)| clean)
    }

    #[test]
    fn secret_names() {
        for name in [
            "DB_PASSWORD",
            "--api-key",
            "clientSecret",
            "AWS_SECRET_ACCESS_KEY",
            "dapr-api-token",
            "authorization",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "TOKEN_FILE",
            "secretName",
            "--token-path",
            "PATH",
            "port",
            "monkey",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn secrets_are_redacted() {
        let web = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl";
        for (text, expected) in [
            (
                "--password=hunter2 --port=80",
                "--password=[redacted] --port=80",
            ),
            ("GET /?a=1&token=abc&b=2", "GET /?a=1&token=[redacted]&b=2"),
            (
                "postgres://me:pw@db:5432/x",
                "postgres://[redacted]@db:5432/x",
            ),
            (
                "Authorization: Bearer abcdefgh and",
                "Authorization: [redacted]",
            ),
            (
                "cookie: a=b; c=d\nHost: x\n",
                "cookie: [redacted]\nHost: x\n",
            ),
            ("sent Bearer abcdefgh once", "sent Bearer [redacted] once"),
            (
                r#"{"token":"abc","a":"b"}"#,
                r#"{"token":"[redacted]","a":"b"}"#,
            ),
            (r#"{"token": "abc"}"#, r#"{"token": "[redacted]"}"#),
            ("token= abc", "token= [redacted]"),
            (
                "proxyMetadata:\n  DB_PASSWORD: \"hunter 2\"\n  - token: a: b\nport: 1",
                "proxyMetadata:\n  DB_PASSWORD: [redacted]\n  - token: [redacted]\nport: 1",
            ),
            (
                "env:\n  PASSWORD: |\n    hunter2\n\n    more\n  - token: >-\n      a\n    user: b\nport: 1",
                "env:\n  PASSWORD: [redacted]\n\n  - token: [redacted]\n    user: b\nport: 1",
            ),
            (
                r#"sh -c "app --password  'hunter2' -v""#,
                r#"sh -c "app --password  '[redacted]' -v""#,
            ),
            (
                r#""{\"password\":\"abc\"}""#,
                r#""{\"password\":\"[redacted]\"}""#,
            ),
            ("key AKIAIOSFODNN7EXAMPLE.", "key [redacted]"),
            // A token of the minimum length.
            ("vault hvs.CAESIJabcdef sent", "vault [redacted] sent"),
            ("a\n-----BEGIN PRIVATE KEY-----\nMII", "a\n[redacted]"),
            (
                "-----BEGIN R{\"token\":\"-----x\":\"a PRIVATE KEY-----",
                "-----BEGIN R{\"token\":\"[redacted]\":\"a PRIVATE KEY-----",
            ),
            (web, "[redacted]"),
        ] {
            assert_eq!(of(text), expected, "{text}");
            assert_eq!(
                of(expected),
                expected,
                "twice is the same as once: {expected}"
            );
        }
    }

    #[test]
    fn other_texts_are_kept() {
        for text in [
            "",
            "the token was refused",
            "no token: not found",
            "password:\n  file: /a\nsecretName: b",
            "--tls-token-file=/var/run/token",
            "--tls-token-file /var/run/token",
            "--ask-password --user me",
            "a token that is old",
            "http://127.0.0.1:15020/quitquitquit?a=b@c",
            "basic auth",
            // Words with a token's prefix that are too short, and names with dots that are as long as tokens.
            "hvs.conf, SG.1 and ghp_abcdefghijk",
            "istio-pilot.istio-system.svc.cluster.local:15012",
            r#"field "token" refused: expired"#,
            "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
            "10.0.0.1:80 -> [::1]:90",
            r#"{"containers":["istio-proxy"],"volumes":["credential-socket"]}"#,
        ] {
            assert_eq!(redact_text(text), None, "{text}");
        }
    }

    /// With quadratic run time this test would not end.
    #[test]
    fn time_is_linear_in_the_length_of_a_word() {
        let half = 1 << 20;
        let text = format!("{}://{}@b", "a".repeat(half), ":".repeat(half));
        assert_eq!(of(&text).len(), half + "://[redacted]@b".len());
    }

    proptest! {
        #[test]
        fn planted_secret_is_redacted(
            before in "[ -~\u{e9}\n]{0,40}",
            after in "[ -~\u{e9}\n]{0,40}",
            secret in "[A-Za-z0-9]{20}",
        ) {
            for text in [
                format!("{before}\n--password={secret} {after}"),
                format!("{before}\nAuthorization: Bearer {secret}\n{after}"),
                format!("{before}\nhttps://user:{secret}@host/ {after}"),
                format!("{before}\n{{\"token\":\"{secret}\"}} {after}"),
                format!("{before}\nghp_{secret} {after}"),
            ] {
                let (clean, count) = redact_text(&text).unwrap();
                prop_assert!(!clean.contains(&secret), "{clean:?}");
                prop_assert!(count >= 1);
            }
        }

        #[test]
        fn redaction_is_idempotent(text: String) {
            let once = of(&text);
            prop_assert_eq!(of(&once), once.clone());
        }
    }
}
