//! How long a sidecar takes to end: one time, or several that follow each other.

use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{
        Error, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, StrDeserializer, U64Deserializer},
    },
};

use super::{Setting, Sources, Subject};

/// Times that add up: Dapr blocks its shutdown for one setting, and ends gracefully for another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Takes(Vec<Setting<Duration>>);

impl Takes {
    /// The sum for a container.
    pub(in crate::recipe) fn of(&self, subject: Subject<'_>) -> Duration {
        self.0.iter().map(|time| time.of(subject)).sum()
    }

    /// The sum where the pod sets nothing.
    pub fn by_default(&self) -> Duration {
        self.0.iter().map(Setting::default).sum()
    }

    pub(in crate::recipe) fn sources(&self) -> impl Iterator<Item = Sources<'_>> {
        self.0.iter().map(Setting::sources)
    }
}

impl<'de> Deserialize<'de> for Takes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Takes;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a duration, a map with its default, or a list of these")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Takes, E> {
                let time = Setting::deserialize(U64Deserializer::new(number))?;
                Ok(Takes(vec![time]))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Takes, E> {
                let time = Setting::deserialize(StrDeserializer::new(text))?;
                Ok(Takes(vec![time]))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Takes, A::Error> {
                let time = Setting::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Takes(vec![time]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Takes, A::Error> {
                let mut times = Vec::new();
                while let Some(time) = list.next_element()? {
                    times.push(time);
                }
                Ok(Takes(times))
            }
        }
        deserializer.deserialize_any(OneOrMore)
    }
}
