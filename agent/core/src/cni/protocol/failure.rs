//! What the plugin prints when it fails, and in reply to VERSION ([CNI
//! specification](https://www.cni.dev/docs/spec/#error)).

use serde_json::json;

use super::VERSIONS;

/// An error code of the CNI specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// An environment variable is missing or invalid.
    Environment = 4,
    /// Stdin cannot be read.
    Io = 5,
    /// The input cannot be decoded.
    Decode = 6,
    /// The network configuration is invalid.
    Configuration = 7,
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
        json!({
            "cniVersion": version,
            "code": self.code as u32,
            "msg": self.message,
            "details": self.details,
        })
        .to_string()
    }
}

/// The reply to VERSION.
pub fn versions(asked_in: &str) -> String {
    json!({"cniVersion": asked_in, "supportedVersions": VERSIONS}).to_string()
}
