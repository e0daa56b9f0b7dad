//! A name to resolve.

use std::{fmt, str::FromStr};

/// Limits of RFC 1035, as text: without the final dot.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A name that a query can contain. A final dot disables the search domains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid name, use for example db, db.shop.svc or example.com.")]
pub struct InvalidName;

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let relative = text.strip_suffix('.').unwrap_or(text);
        let is_valid = |label: &str| {
            let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(is_valid)
        };
        if relative.len() > MAX_NAME || !relative.split('.').all(is_valid) {
            return Err(InvalidName);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without a final dot.
    pub fn relative(&self) -> &str {
        self.0.strip_suffix('.').unwrap_or(&self.0)
    }

    /// Whether the name is the pod's loopback, for which no server is queried.
    pub fn is_localhost(&self) -> bool {
        let name = self.relative().to_ascii_lowercase();
        name == "localhost" || name.ends_with(".localhost")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for text in ["db", "db.shop.svc", "example.com.", "_http._tcp.x", "a-1"] {
            assert_eq!(text.parse::<Name>().unwrap().to_string(), text);
        }
        let long = format!("{}.x", "a".repeat(64));
        let longer = "a.".repeat(127) + "ab";
        for text in [
            "", ".", "a..b", ".a", "a b", "a\x1b", "ä", "a/b", &long, &longer,
        ] {
            assert_eq!(text.parse::<Name>(), Err(InvalidName), "{text}");
        }
    }

    #[test]
    fn localhost_has_any_case_and_subdomains() {
        let is_localhost = |text: &str| text.parse::<Name>().unwrap().is_localhost();
        assert!(is_localhost("LocalHost.") && is_localhost("a.localhost"));
        assert!(!is_localhost("notlocalhost") && !is_localhost("localhost.x"));
    }
}
