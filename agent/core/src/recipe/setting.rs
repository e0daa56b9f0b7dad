//! Values that a pod's author may have changed: ports, paths, drain times.

mod takes;

use std::{borrow::Cow, fmt, marker::PhantomData, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};

pub use self::takes::Takes;
use super::Subject;
use crate::{base::duration, recipe::step};

/// A value with a default, and the places where a pod may override it.
///
/// In a recipe it is the default alone, or a map of `default` and any of `annotations`, `args` and `env`. The first
/// source that has a readable value counts. `NAME#/pointer` in `annotations` or `env` reads a value of a JSON or YAML
/// document ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    default: T,
    annotations: Vec<String>,
    args: Vec<String>,
    env: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
pub struct Sources<'setting> {
    pub annotations: &'setting [String],
    pub args: &'setting [String],
    /// Variables with a literal value.
    pub env: &'setting [String],
}

/// The type of a setting's value.
pub trait Value: Sized + Clone {
    /// Its name in errors.
    const WHAT: &'static str;
    fn read(text: &str) -> Option<Self>;
}

impl Value for u16 {
    const WHAT: &'static str = "a TCP port";

    /// A port, or the first address of a list with its port, as Linkerd's proxy gets it: `127.0.0.1:4140,[::1]:4140`.
    fn read(text: &str) -> Option<Self> {
        let first = text.split(',').next()?;
        let port = first
            .rsplit_once(':')
            .map_or(first, |(_address, port)| port);
        port.trim().parse().ok()
    }
}

impl Value for Duration {
    const WHAT: &'static str = "a duration (like 500ms, 5s, 1m30s)";

    fn read(text: &str) -> Option<Self> {
        duration::parse_or_seconds(text).ok()
    }
}

impl Value for String {
    const WHAT: &'static str = "a path that begins with a slash";

    fn read(text: &str) -> Option<Self> {
        step::is_path(text).then(|| text.to_owned())
    }
}

impl<T: Value> Setting<T> {
    /// A setting that no pod overrides.
    pub const fn fixed(default: T) -> Self {
        Self {
            default,
            annotations: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    pub const fn default(&self) -> &T {
        &self.default
    }

    pub(super) fn of(&self, subject: Subject<'_>) -> T {
        let set = self.set_by(subject).into_iter().next();
        set.unwrap_or_else(|| self.default.clone())
    }

    /// The values that the pod sets for a container: those of the first source that has any.
    pub(super) fn set_by(&self, subject: Subject<'_>) -> Vec<T> {
        let annotations = self
            .annotations
            .iter()
            .map(|place| Vec::from_iter(subject.annotation_at(place)));
        let args = self
            .args
            .iter()
            .map(|name| subject.flags(name).into_iter().map(Cow::Borrowed).collect());
        let env = self
            .env
            .iter()
            .map(|name| Vec::from_iter(subject.env_at(name)));
        annotations
            .chain(args)
            .chain(env)
            .map(|texts: Vec<Cow<'_, str>>| {
                texts
                    .iter()
                    .filter_map(|text| T::read(text))
                    .collect::<Vec<T>>()
            })
            .find(|values| !values.is_empty())
            .unwrap_or_default()
    }

    pub fn sources(&self) -> Sources<'_> {
        Sources {
            annotations: &self.annotations,
            args: &self.args,
            env: &self.env,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Full {
    default: Scalar,
    #[serde(default)]
    annotations: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
}

/// A number or a text.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Scalar;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a number or a text")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

fn read<T: Value, E: de::Error>(text: &str) -> Result<T, E> {
    T::read(text).ok_or_else(|| E::custom(format!("{text:?} is not {}", T::WHAT)))
}

impl<'de, T: Value> Deserialize<'de> for Setting<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);
        impl<'de, T: Value> Visitor<'de> for Either<T> {
            type Value = Setting<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}, or a map with its default", T::WHAT)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Setting<T>, E> {
                read(&number.to_string()).map(Setting::fixed)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Setting<T>, E> {
                read(text).map(Setting::fixed)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Setting<T>, A::Error> {
                let full = Full::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Setting {
                    default: read(&full.default.0)?,
                    annotations: full.annotations,
                    args: full.args,
                    env: full.env,
                })
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}
