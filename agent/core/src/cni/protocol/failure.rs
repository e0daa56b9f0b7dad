//! What the plugin prints when it refuses, and when it is asked for its versions
//! ([CNI specification](https://www.cni.dev/docs/spec/#error)).

use serde::Serialize;

use super::VERSIONS;

/// A number of the CNI specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// 4: a variable of the environment is missing or wrong.
    Environment,
    /// 5: stdin cannot be read.
    Io,
    /// 6: what was read cannot be decoded.
    Decode,
    /// 7: the configuration is not as it has to be.
    Configuration,
}

impl Code {
    pub const fn number(self) -> u32 {
        match self {
            Self::Environment => 4,
            Self::Io => 5,
            Self::Decode => 6,
            Self::Configuration => 7,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}: {details}")]
pub struct Failure {
    pub code: Code,
    pub message: String,
    pub details: String,
}

impl Failure {
    /// As the runtime reads it.
    pub fn json(&self, version: &str) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Message<'a> {
            cni_version: &'a str,
            code: u32,
            msg: &'a str,
            details: &'a str,
        }

        let message = Message {
            cni_version: version,
            code: self.code.number(),
            msg: &self.message,
            details: &self.details,
        };
        serde_json::to_string(&message).unwrap_or_default()
    }
}

/// The answer to VERSION.
pub fn versions(asked_in: &str) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Message<'a> {
        cni_version: &'a str,
        supported_versions: [&'static str; VERSIONS.len()],
    }

    let message = Message {
        cni_version: asked_in,
        supported_versions: VERSIONS,
    };
    serde_json::to_string(&message).unwrap_or_default()
}
