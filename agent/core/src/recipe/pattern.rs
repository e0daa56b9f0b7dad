//! Names with `*` in them.

use serde::Deserialize;

use crate::pod::image;

/// A text in which `*` stands for any number of characters but slashes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern(String);

/// Longer than any name or path of an image.
const LONGEST: usize = 255;

impl Pattern {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        matches(self.0.as_bytes(), text.as_bytes())
    }

    /// Whether the end of the image's path, from some slash on, matches:
    /// `istio/proxyv2` matches `docker.io/istio/proxyv2:1.20`.
    pub fn matches_image(&self, image: &str) -> bool {
        let path = image::repository(image);
        let wanted = self.0.matches('/').count() + 1;
        let ends = path.rmatch_indices('/').nth(wanted - 1);
        let end = ends.map_or(path, |(at, _)| &path[at + 1..]);
        self.matches(end)
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() || text.len() > LONGEST {
            return Err(format!("a pattern has 1 to {LONGEST} characters"));
        }
        if text.chars().all(|letter| letter == '*' || letter == '/') {
            return Err(format!("{text:?} would match everything"));
        }
        Ok(Self(text))
    }
}

/// Matches as little as possible for each star, and returns to the last star where that was too short: linear for one
/// star, never worse than the product of the lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut in_text) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while in_text < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_text));
                at += 1;
            }
            Some(letter) if *letter == text[in_text] => {
                at += 1;
                in_text += 1;
            }
            _ => match star {
                Some((place, from)) if text[from] != b'/' => {
                    (at, in_text) = (place, from + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn stars() {
        for (text, name, expected) in [
            ("istio-proxy", "istio-proxy", true),
            ("istio-proxy", "istio-proxy2", false),
            ("csql-*", "csql-db", true),
            ("csql-*", "csql-", true),
            ("csql-*", "xcsql-a", false),
            ("*daprd*", "my-daprd-x", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("a*a", "a", false),
            ("a*", "a/b", false),
            ("a*/b", "a-x/b", true),
            ("**b", "ab", true),
            ("x*", "x", true),
        ] {
            assert_eq!(pattern(text).matches(name), expected, "{text} {name}");
        }
    }

    #[test]
    fn images_are_matched_from_a_slash_on() {
        for (text, image, expected) in [
            ("proxyv2", "docker.io/istio/proxyv2:1.20", true),
            ("proxyv2", "docker.io/istio/my-proxyv2:1.20", false),
            ("istio/proxyv2", "localhost:5000/istio/proxyv2", true),
            ("istio/proxyv2", "proxyv2", false),
            ("envoyproxy/envoy*", "envoyproxy/envoy-distroless:v1", true),
            ("envoyproxy/envoy*", "envoyproxy/envoy/other:v1", false),
            ("*fluent-bit*", "cr.fluentbit.io/fluent/fluent-bit:3", true),
        ] {
            let found = pattern(text).matches_image(image);
            assert_eq!(found, expected, "{text} {image}");
        }
    }

    #[test]
    fn pattern_that_matches_everything_is_rejected() {
        for text in ["", "*", "*/*"] {
            assert!(Pattern::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn longest_possible_name() {
        for (length, is_pattern) in [(1, true), (255, true), (256, false)] {
            let read = Pattern::try_from("x".repeat(length));
            assert_eq!(read.is_ok(), is_pattern, "{length}");
        }
    }
}
