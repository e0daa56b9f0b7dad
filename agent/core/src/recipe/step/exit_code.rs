//! The exit code that a step causes.

use std::fmt;

use serde::{Deserialize, Deserializer, de::Error};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitCode {
    /// It was measured, or follows from the program's source.
    Known(i32),
    /// It may be 0 or not. Where another code than 0 would harm the pod, the step is not taken.
    Unknown,
}

impl ExitCode {
    pub const ZERO: Self = Self::Known(0);

    pub const fn known(self) -> Option<i32> {
        match self {
            Self::Known(code) => Some(code),
            Self::Unknown => None,
        }
    }
}

impl From<Option<i32>> for ExitCode {
    fn from(known: Option<i32>) -> Self {
        known.map_or(Self::Unknown, Self::Known)
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(code) => code.fmt(out),
            Self::Unknown => out.write_str("unknown"),
        }
    }
}

impl<'de> Deserialize<'de> for ExitCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "an exit code must be 0 to 255 or unknown")]
        enum Raw {
            Number(u8),
            Word(String),
        }
        match Raw::deserialize(deserializer)? {
            Raw::Number(code) => Ok(Self::Known(code.into())),
            Raw::Word(word) if word == "unknown" => Ok(Self::Unknown),
            Raw::Word(word) => Err(D::Error::custom(format!(
                "exit code {word:?} must be 0 to 255 or unknown"
            ))),
        }
    }
}
