//! What looks like a secret, in texts that are not ours. Rather too much than too little, with one limit: a path is none.

use super::key;

/// What stands where something was left out.
pub(super) const MARK: &str = "[redacted]";

/// Parts of names whose values are secrets.
const NAMES: [&str; 14] = [
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
/// Ends of names whose values say where a secret is, or what kind, and are none.
const PLACES: [&str; 11] = [
    "file", "path", "dir", "url", "uri", "name", "type", "seconds", "port", "enabled", "count",
];
/// How tokens of well-known services begin.
const BEGINNINGS: [&str; 13] = [
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
/// And how long they are at least.
const TOKEN: usize = 16;

/// Whether what has this name is a secret: `DB_PASSWORD`, `--api-key`, `clientSecret`; not `TOKEN_FILE`.
pub(super) fn is_name(name: &str) -> bool {
    let letters: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    let says = NAMES.iter().any(|part| letters.contains(part));
    says && !PLACES.iter().any(|end| letters.ends_with(end))
}

/// The text without what looks like a secret, and how often something did. A text that has nothing comes back as it was.
pub(super) fn scrubbed(text: &str) -> Option<(String, u64)> {
    let (text, mut count) = key::left_out(text);
    let mut clean = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        count += self::line(line, &mut clean);
    }
    (count > 0).then_some((clean, count))
}

/// One line, word by word. Words end where neither a token nor a name goes on.
fn line(line: &str, clean: &mut String) -> u64 {
    let mut count = 0;
    // What the words before this one say of it.
    let mut expected = Expected::Nothing;
    for word in Words(line) {
        let Word { text, end } = word;
        let is_secret = match expected {
            Expected::Nothing | Expected::Named => is_token(text),
            Expected::Value => !text.is_empty() && text != MARK,
            Expected::Argument => !text.is_empty() && text != MARK && !text.starts_with('-'),
            Expected::Scheme => text.len() >= 8 && text != MARK,
            Expected::Rest => !text.is_empty(),
        };
        if is_secret && expected == Expected::Rest {
            clean.push_str(MARK);
            if line.ends_with('\n') {
                clean.push('\n');
            }
            // What was left out already does not count again.
            return count + u64::from(text != MARK);
        }
        if is_secret {
            clean.push_str(MARK);
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

/// What the words so far say of the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Nothing,
    /// It follows a name in quotes that says so; with a colon between them it is the value.
    Named,
    /// It is the value of a name that says so.
    Value,
    /// The same of a flag, which may have none.
    Argument,
    /// A header that has nothing else: all of the line.
    Rest,
    /// `Bearer` or `Basic` was said.
    Scheme,
}

impl Expected {
    fn after(self, text: &str, end: &str) -> Self {
        if is_scheme(text) && end == " " {
            return Self::Scheme;
        }
        // Between a name and its value there may be blanks, quotes and a colon: "token": "a". The words there are empty.
        let is_between = ["", " ", "\"", "'", "\\"].contains(&end);
        match (self, end) {
            (Self::Named, ":") if text.is_empty() => Self::Value,
            (Self::Named | Self::Value | Self::Argument | Self::Rest, _)
                if text.is_empty() && is_between =>
            {
                self
            }
            (_, " ") if text.starts_with('-') && is_name(text) => Self::Argument,
            (_, "=") if is_name(text) => Self::Value,
            (_, ":") if is_header(text) => Self::Rest,
            (_, "\"" | "'" | "\\") if is_name(text) => Self::Named,
            _ => Self::Nothing,
        }
    }
}

/// Headers that are nothing but a secret.
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

/// A token by its looks: a JSON Web Token, or one of a service that marks them.
fn is_token(word: &str) -> bool {
    let is_of_token = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if word.len() < TOKEN || !word.chars().all(is_of_token) {
        return false;
    }
    let web = word.starts_with("eyJ") && word.matches('.').count() >= 2;
    web || BEGINNINGS.iter().any(|begin| word.starts_with(begin))
}

/// A URL without the user and password in it.
fn without_user(word: &str) -> Option<String> {
    let at = word.find("://")? + 3;
    let (scheme, rest) = word.split_at(at);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let user = rest[..end].rfind('@')?;
    // What was left out already.
    let is_left_out = &rest[..user] == MARK;
    (!is_left_out).then(|| format!("{scheme}{MARK}{}", &rest[user..]))
}

/// A word and the letter that ends it.
struct Word<'text> {
    text: &'text str,
    end: &'text str,
}

/// The words of a line.
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
            // In a URL, and between a user and a password.
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

/// Whether a word ends there, whatever it is.
fn ends(letter: char) -> bool {
    "=,;&\"'\\(){}<>".contains(letter) || letter.is_whitespace() || letter.is_control()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> String {
        scrubbed(text).map_or_else(|| text.to_owned(), |(clean, _)| clean)
    }

    #[test]
    fn names() {
        for name in [
            "DB_PASSWORD",
            "--api-key",
            "clientSecret",
            "AWS_SECRET_ACCESS_KEY",
            "dapr-api-token",
            "authorization",
        ] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "TOKEN_FILE",
            "secretName",
            "--token-path",
            "PATH",
            "port",
            "monkey",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn what_is_left_out() {
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
            ("said Bearer abcdefgh once", "said Bearer [redacted] once"),
            (
                r#"{"token":"abc","a":"b"}"#,
                r#"{"token":"[redacted]","a":"b"}"#,
            ),
            (r#"{"token": "abc"}"#, r#"{"token": "[redacted]"}"#),
            ("token= abc", "token= [redacted]"),
            (
                r#"sh -c "app --password  'hunter2' -v""#,
                r#"sh -c "app --password  '[redacted]' -v""#,
            ),
            (
                r#""{\"password\":\"abc\"}""#,
                r#""{\"password\":\"[redacted]\"}""#,
            ),
            ("key AKIAIOSFODNN7EXAMPLE.", "key [redacted]"),
            // As short as a token can be.
            ("vault hvs.CAESIJabcdef said", "vault [redacted] said"),
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
    fn what_stays() {
        for text in [
            "",
            "the token was refused",
            "no token: not found",
            "--tls-token-file=/var/run/token",
            "--tls-token-file /var/run/token",
            "--ask-password --user me",
            "a token that is old",
            "http://127.0.0.1:15020/quitquitquit?a=b@c",
            "basic auth",
            // What begins as a token does and is too short for one, and names that are as long and have dots.
            "hvs.conf, SG.1 and ghp_abcdefghijk",
            "istio-pilot.istio-system.svc.cluster.local:15012",
            r#"field "token" refused: expired"#,
            "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
            "10.0.0.1:80 -> [::1]:90",
            r#"{"containers":["istio-proxy"],"volumes":["credential-socket"]}"#,
        ] {
            assert_eq!(scrubbed(text), None, "{text}");
        }
    }

    /// What takes a time that grows with the square of its length does not end here.
    #[test]
    fn long_words_are_read_once() {
        let half = 1 << 20;
        let text = format!("{}://{}@b", "a".repeat(half), ":".repeat(half));
        assert_eq!(of(&text).len(), half + "://[redacted]@b".len());
    }

    proptest! {
        #[test]
        fn a_planted_secret_is_gone(
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
                let (clean, count) = scrubbed(&text).unwrap();
                prop_assert!(!clean.contains(&secret), "{clean:?}");
                prop_assert!(count >= 1);
            }
        }

        #[test]
        fn any_text_is_read(text: String) {
            let once = of(&text);
            prop_assert_eq!(of(&once), once.clone());
        }
    }
}
