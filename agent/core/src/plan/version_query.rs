//! Versions that the sidecars of a pod reported on request, by image. A report applies to that pod only.
//!
//! A sidecar is queried while its pod's apps run, so that the reply is there when it is needed. The sidecar may not
//! listen yet, so the query is repeated a few times. Without a reply it counts as newer than all versions that a
//! recipe knows.

pub mod reply;

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{base::time::Timestamp, recipe::Version};

/// The wait before each query.
const WAITS_MS: [u64; 6] = [300, 500, 1000, 3000, 10_000, 60_000];
/// Limit of the images of one pod whose versions are queried, however often its owner changes them.
const IMAGES: usize = 64;

/// A request with a JSON reply that contains a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRequest {
    pub port: u16,
    /// Path, beginning with a slash.
    pub path: String,
    /// The place of the version in the reply ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)).
    pub pointer: String,
}

/// The query for each image.
#[derive(Debug, Clone, Default)]
pub struct VersionQueries(BTreeMap<String, State>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Due { at: Timestamp, tries: usize },
    InFlight { tries: usize },
    Known(Option<Version>),
}

impl VersionQueries {
    /// The version that a sidecar of this image reported.
    pub(crate) fn version(&self, image: &str) -> Option<Version> {
        match self.0.get(image) {
            Some(State::Known(version)) => *version,
            _ => None,
        }
    }

    /// Whether to query a running sidecar of this image now.
    pub(crate) fn begin(&mut self, now: Timestamp, image: &str) -> bool {
        if self.0.len() >= IMAGES && !self.0.contains_key(image) {
            return false;
        }
        let first = State::Due {
            at: now + Duration::from_millis(WAITS_MS[0]),
            tries: 0,
        };
        let state = self.0.entry(image.to_owned()).or_insert(first);
        match *state {
            State::Due { at, tries } if at <= now => {
                *state = State::InFlight { tries };
                true
            }
            _ => false,
        }
    }

    /// When to call [`Self::begin`] again for this image.
    pub(crate) fn due(&self, image: &str) -> Option<Timestamp> {
        match self.0.get(image) {
            Some(State::Due { at, .. }) => Some(*at),
            _ => None,
        }
    }

    /// The queried sidecar has ended, and its image is not known: all pending queries are repeated.
    pub(crate) fn forget_flights(&mut self) {
        self.0
            .retain(|_image, state| !matches!(state, State::InFlight { .. }));
    }

    /// Applies a reply, None for no reply. Whether the version is known now.
    pub(crate) fn answered(
        &mut self,
        now: Timestamp,
        image: &str,
        version: Option<Version>,
    ) -> bool {
        let Some(State::InFlight { tries }) = self.0.get(image).copied() else {
            return false;
        };
        let tries = tries + 1;
        let state = match (version, WAITS_MS.get(tries)) {
            (None, Some(wait)) => State::Due {
                at: now + Duration::from_millis(*wait),
                tries,
            },
            (version, _) => State::Known(version),
        };
        self.0.insert(image.to_owned(), state);
        version.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::new(Duration::from_millis(ms))
    }

    #[test]
    fn version_queries_are_sequential_and_bounded() {
        let mut queries = VersionQueries::default();
        assert!(!queries.begin(at(0), "x"), "it does not listen yet");
        let mut tries = 0;
        let mut last = at(0);
        while let Some(due) = queries.due("x") {
            assert!(due > last, "{tries}");
            last = due;
            assert!(queries.begin(due, "x"));
            assert!(!queries.begin(due, "x"), "one at a time");
            assert!(!queries.answered(due, "x", None));
            tries += 1;
        }
        assert_eq!(tries, WAITS_MS.len());
        assert!(!queries.begin(at(10_000_000), "x"));
        assert_eq!(queries.version("x"), None);
    }

    #[test]
    fn an_answer_is_kept_for_the_image() {
        let mut queries = VersionQueries::default();
        queries.begin(at(0), "x");
        assert!(queries.begin(at(300), "x"));
        let version = "1.20.8".parse().ok();
        assert!(queries.answered(at(301), "x", version));
        assert_eq!(queries.version("x").unwrap().minor, 20);
        assert!(!queries.begin(at(9999), "x"));
        assert!(!queries.answered(at(9999), "x", None), "no request is open");
    }

    #[test]
    fn number_of_queried_images_is_bounded() {
        let mut queries = VersionQueries::default();
        let images: Vec<String> = (0..=IMAGES).map(|number| format!("x:{number}")).collect();
        let due = images.iter().filter(|image| {
            queries.begin(at(0), image);
            queries.begin(at(300), image)
        });
        assert_eq!(due.count(), IMAGES);
        let version = "1.20.8".parse().ok();
        assert!(queries.answered(at(301), &images[0], version));
        assert!(!queries.begin(at(9999), &images[IMAGES]));
        assert_eq!(queries.due(&images[IMAGES]), None);
        assert_eq!(queries.version(&images[0]), version);
    }
}
