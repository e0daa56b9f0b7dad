//! What the plugin prints when it fails, and in reply to VERSION ([CNI
//! specification](https://www.cni.dev/docs/spec/#error)).

use serde::Serialize;

use super::VERSIONS;

/// An error code of the CNI specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// 4: an environment variable is missing or invalid.
    Environment,
    /// 5: stdin cannot be read.
    Io,
    /// 6: the input cannot be decoded.
    Decode,
    /// 7: the network configuration is invalid.
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
    /// The error in the form that the runtime reads.
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

/// The reply to VERSION.
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
