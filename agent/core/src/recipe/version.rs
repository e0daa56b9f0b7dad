//! Versions of sidecars, and ranges of them.

use std::{collections::BTreeSet, fmt, iter, str::FromStr};

use serde::{Deserialize, Deserializer, de};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

/// A text that does not begin with a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a version: {0:?}")]
pub struct NotAVersion(String);

impl FromStr for Version {
    type Err = NotAVersion;

    /// Parses the version at the beginning of a text, such as a tag: `v1.24.6-distroless` is 1.24. `latest` and
    /// digests have none.
    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let parse = || {
            let text = text.strip_prefix('v').unwrap_or(text);
            let mut parts = text.split('.');
            let major = parts.next()?.parse().ok()?;
            let minor = parts.next()?;
            let digits = minor
                .find(|letter: char| !letter.is_ascii_digit())
                .unwrap_or(minor.len());
            let minor = minor.get(..digits)?.parse().ok()?;
            Some(Self { major, minor })
        };
        parse().ok_or_else(|| NotAVersion(text.chars().take(64).collect()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// A range of versions: `>=1.4 <1.26`, either end alone, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Versions {
    from: Option<Version>,
    below: Option<Version>,
}

impl Versions {
    /// Whether a version is in the range. An unknown one counts as newer than all.
    pub fn contain(self, version: Option<Version>) -> bool {
        let Some(version) = version else {
            return self.below.is_none();
        };
        self.from.is_none_or(|from| from <= version)
            && self.below.is_none_or(|below| version < below)
    }

    /// The ranges between all bounds of `ranges`, oldest first: each of `ranges` contains all of one of them or
    /// nothing.
    pub(super) fn between(ranges: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let ranges = ranges.into_iter();
        let ends: BTreeSet<Version> = ranges
            .flat_map(|range| [range.from, range.below])
            .flatten()
            .collect();
        let ends: Vec<_> = ends.into_iter().map(Some).collect();
        let froms = iter::once(None).chain(ends.iter().copied());
        let belows = ends.iter().copied().chain(iter::once(None));
        froms
            .zip(belows)
            .map(|(from, below)| Self { from, below })
            .collect()
    }

    pub(super) fn oldest(self) -> Version {
        self.from.unwrap_or(Version { major: 0, minor: 0 })
    }

    /// The union with `newer`, which begins where this range ends.
    pub(super) const fn and(self, newer: Self) -> Self {
        Self {
            from: self.from,
            below: newer.below,
        }
    }

    /// Whether it has a bound.
    pub fn is_limited(self) -> bool {
        self.from.is_some() || self.below.is_some()
    }
}

impl FromStr for Versions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut range = Self::default();
        for part in text.split_whitespace() {
            let (end, version) = if let Some(version) = part.strip_prefix(">=") {
                (&mut range.from, version)
            } else if let Some(version) = part.strip_prefix('<') {
                (&mut range.below, version)
            } else {
                return Err(format!(
                    "{part:?} is neither >=MAJOR.MINOR nor <MAJOR.MINOR"
                ));
            };
            let version = version
                .parse()
                .map_err(|bad: NotAVersion| bad.to_string())?;
            if end.replace(version).is_some() {
                return Err(format!("{text:?} gives the same end twice"));
            }
        }
        if !range.is_limited() {
            return Err("a range of versions is like >=1.4 <1.26".to_owned());
        }
        Ok(range)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.from, self.below) {
            (Some(from), Some(below)) => write!(formatter, "{from} to below {below}"),
            (Some(from), None) => write!(formatter, "from {from}"),
            (None, Some(below)) => write!(formatter, "below {below}"),
            (None, None) => formatter.write_str("any version"),
        }
    }
}

impl<'de> Deserialize<'de> for Versions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let of = |text: &str| text.parse::<Version>().ok().map(|v| (v.major, v.minor));
        assert_eq!(of("1.24.6-distroless"), Some((1, 24)));
        assert_eq!(of("1.31-dev"), Some((1, 31)));
        assert_eq!(of("v1.3.0"), Some((1, 3)));
        for text in ["latest", "1", "", "99999999999999.1", "1.", "sha256:1.24"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn ranges_between_all_ends() {
        let of = |texts: &[&str]| {
            let ranges = texts.iter().map(|text| text.parse().unwrap());
            let between = Versions::between(ranges);
            let texts: Vec<String> = between.iter().map(ToString::to_string).collect();
            texts.join(", ")
        };
        assert_eq!(of(&[]), "any version");
        assert_eq!(of(&[">=1.26"]), "below 1.26, from 1.26");
        assert_eq!(
            of(&[">=1.3 <1.26", ">=1.26", ">=1.4"]),
            "below 1.3, 1.3 to below 1.4, 1.4 to below 1.26, from 1.26"
        );
    }

    #[test]
    fn ranges() {
        let range: Versions = ">=1.4 <1.26".parse().unwrap();
        let contains = |text: &str| range.contain(text.parse().ok());
        assert!(!contains("1.3"));
        assert!(contains("1.4"));
        assert!(contains("1.25"));
        assert!(!contains("1.26"));
        assert!(!contains("2.5"));
        assert!(!contains("latest"), "newer than all");
        assert!(">=1.26".parse::<Versions>().unwrap().contain(None));
        for text in ["", "1.4", ">1.4", ">=x", ">=1.4 >=1.5"] {
            assert!(text.parse::<Versions>().is_err(), "{text}");
        }
    }
}
