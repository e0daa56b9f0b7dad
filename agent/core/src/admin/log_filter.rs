//! The filter of `usher log --level agent::install::cni=debug`.
//!
//! `tracing_subscriber` accepts nearly every text, also a misspelt level; here such a text is an error. Targets are
//! modules of usher's programs. A package has the name of its folder or its own name.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// How long a filter applies by default.
pub const USUAL: Duration = Duration::from_secs(10 * 60);
/// The shortest and the longest duration of a filter.
pub const LIMITS: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(24 * 60 * 60));
/// The largest number of directives.
const MOST: usize = 32;
/// Limit of a directive, longer than any module's path.
const LONGEST: usize = 128;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// Short names of packages.
const PACKAGES: [(&str, &str); 4] = [
    ("agent", "usher_agent"),
    ("core", "usher_core"),
    ("sys", "usher_sys"),
    ("usher", "usher_agent"),
];

/// A level for everything, or for one module and those in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// The module, by its full path.
    target: Option<String>,
    level: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotADirective {
    #[error("{text:?}: invalid level {level:?} (off, error, warn, info, debug or trace)")]
    Level { text: String, level: String },
    #[error("{text:?}: invalid module {target:?} (a valid one is agent::install)")]
    Target { text: String, target: String },
    #[error("more than {MOST} directives")]
    TooMany,
    #[error("no directive (TARGET=LEVEL or LEVEL)")]
    None,
    #[error("the filter duration must be 1s to 24h, got {}", humantime::format_duration(*.0))]
    Duration(Duration),
}

impl FromStr for Directive {
    type Err = NotADirective;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shortened = || text.chars().take(LONGEST).collect::<String>();
        let (target, level) = match text.rsplit_once('=') {
            Some((target, level)) => (Some(target), level),
            None => (None, text),
        };
        let level = level.trim();
        let is_it = |known: &&&str| known.eq_ignore_ascii_case(level);
        let Some(level) = LEVELS.iter().find(is_it).copied() else {
            return Err(NotADirective::Level {
                text: shortened(),
                level: level.chars().take(LONGEST).collect(),
            });
        };
        let target = target.map(|target| {
            module(target.trim()).ok_or_else(|| NotADirective::Target {
                text: shortened(),
                target: target.chars().take(LONGEST).collect(),
            })
        });
        Ok(Self {
            target: target.transpose()?,
            level,
        })
    }
}

impl fmt::Display for Directive {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Some(target) => write!(formatter, "{target}={}", self.level),
            None => formatter.write_str(self.level),
        }
    }
}

/// The path of a module, with the package's own name.
fn module(text: &str) -> Option<String> {
    let part = |part: &str| {
        let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
        !part.is_empty() && part.chars().all(is_part)
    };
    if text.len() > LONGEST || !text.split("::").all(part) {
        return None;
    }
    let (package, rest) = text
        .split_once("::")
        .map_or((text, None), |(package, rest)| (package, Some(rest)));
    let known = PACKAGES.iter().find(|(short, _)| *short == package);
    let package = known.map_or(package, |(_, name)| name);
    let path = rest.map_or_else(|| package.to_owned(), |rest| format!("{package}::{rest}"));
    // The limit applies to the full path, which users read and pass back: a package's own name is the longer one.
    (path.len() <= LONGEST).then_some(path)
}

/// A request to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Wish {
    pub directives: Vec<String>,
    /// How long the filter applies, in milliseconds.
    pub for_ms: u64,
}

impl Wish {
    /// Returns the filter, on top of the one at the agent's start, and its duration. A later directive overrides an earlier one.
    pub fn filter(&self, base: &str) -> Result<(String, Duration), NotADirective> {
        let texts = self.directives.iter().flat_map(|text| text.split(','));
        let texts: Vec<&str> = texts
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .take(MOST + 1)
            .collect();
        match texts.len() {
            0 => return Err(NotADirective::None),
            count if count > MOST => return Err(NotADirective::TooMany),
            _ => {}
        }
        let lasts = Duration::from_millis(self.for_ms);
        let (shortest, longest) = LIMITS;
        if lasts < shortest || lasts > longest {
            return Err(NotADirective::Duration(lasts));
        }
        let mut filter = base.to_owned();
        for text in texts {
            let directive: Directive = text.parse()?;
            filter.push(',');
            filter.push_str(&directive.to_string());
        }
        Ok((filter, lasts))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wish(directives: &[&str], for_ms: u64) -> Wish {
        Wish {
            directives: directives.iter().map(|one| (*one).to_owned()).collect(),
            for_ms,
        }
    }

    #[test]
    fn directives_and_what_is_none() {
        let read = |text: &str| text.parse::<Directive>().map(|one| one.to_string());
        for (text, expected) in [
            ("debug", "debug"),
            ("TRACE", "trace"),
            (
                "agent::install::cni=debug",
                "usher_agent::install::cni=debug",
            ),
            ("core=trace", "usher_core=trace"),
            ("usher_sys::net::nft=off", "usher_sys::net::nft=off"),
            ("hyper=warn", "hyper=warn"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, words) in [
            ("loud", "invalid level \"loud\""),
            ("agent=", "invalid level \"\""),
            ("agent::nft=debgu", "invalid level \"debgu\""),
            ("=debug", "invalid module \"\""),
            ("a b=debug", "invalid module \"a b\""),
            ("agent::=debug", "invalid module \"agent::\""),
            ("agent[{pod=x}]=debug", "invalid module"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(
                error.contains(words) && error.contains(&format!("{text:?}")),
                "{error}"
            );
        }
    }

    #[test]
    fn length_counts_with_the_packages_own_name() {
        let long = |package: &str, rest: usize| format!("{package}::{}=debug", "a".repeat(rest));
        let longest = LONGEST - "usher_agent::".len();
        let read = |text: &str| text.parse::<Directive>().map(|one| one.to_string());
        let whole = long("usher_agent", longest);
        assert_eq!(read(&long("agent", longest)), Ok(whole.clone()));
        assert_eq!(read(&whole), Ok(whole.clone()));
        assert!(read(&long("agent", longest + 1)).is_err());
        assert!(read(&long("usher_agent", longest + 1)).is_err());
    }

    #[test]
    fn filter_of_a_request() {
        let filter = |wish: Wish| {
            wish.filter("info")
                .map(|(filter, lasts)| (filter, lasts.as_secs()))
        };
        assert_eq!(
            filter(wish(&["agent=debug,core=trace", "warn"], 2000)),
            Ok(("info,usher_agent=debug,usher_core=trace,warn".to_owned(), 2))
        );
        assert_eq!(filter(wish(&[], 2000)), Err(NotADirective::None));
        let (most, more) = ("debug,".repeat(32), "debug,".repeat(33));
        let expected = format!("info{}", ",debug".repeat(32));
        assert_eq!(filter(wish(&[&most], 2000)), Ok((expected, 2)));
        assert_eq!(filter(wish(&[&more], 2000)), Err(NotADirective::TooMany));
        for limit in [1, 24 * 60 * 60] {
            assert_eq!(
                filter(wish(&["debug"], limit * 1000)),
                Ok(("info,debug".to_owned(), limit))
            );
        }
        for odd in [0, 999, 24 * 60 * 60 * 1000 + 1] {
            let lasts = Duration::from_millis(odd);
            assert_eq!(
                filter(wish(&["debug"], odd)),
                Err(NotADirective::Duration(lasts))
            );
        }
    }

    proptest! {
        #[test]
        fn directive_round_trips(text in "[a-z:=A-Z_, ]{0,40}") {
            if let Ok(one) = text.parse::<Directive>() {
                prop_assert_eq!(one.to_string().parse::<Directive>(), Ok(one));
            }
        }
    }
}
