//! Messages between `usher-cni` and the agent, and what the plugin reads from its runtime.
//!
//! For each pod the plugin sends one [`Request`] on a Unix socket of type SOCK_SEQPACKET, together with a file
//! descriptor of the pod's network namespace, and waits for one [`Reply`]. During an update the two programs may have
//! different releases. So each message carries [`PROTOCOL`], unknown fields are ignored, and a number that the
//! receiver does not support means that the pod starts unheld.

mod arguments;
mod conf;
mod failure;

use serde::{Deserialize, Serialize};

pub use self::{
    arguments::{InvalidArguments, PodName, pod},
    conf::{Conf, DEFAULT_LOG_FILE, DEFAULT_SOCKET, DEFAULT_TIMEOUT, LONGEST_TIMEOUT, OwnPod},
    failure::{Code, Failure, versions},
};
use crate::base::id::SandboxId;

/// The type of our plugin, which is the name of its binary.
pub const PLUGIN: &str = "usher-cni";

/// The versions of the CNI specification of a list that the plugin supports, the newest last. It prints the result
/// that it receives, so results older than lists (0.3.0) need no conversion.
pub const VERSIONS: [&str; 7] = [
    "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0",
];

/// The version of the messages in this module.
pub const PROTOCOL: u32 = 1;

/// The longest message; the socket never splits it.
pub const LONGEST_MESSAGE: usize = 16 * 1024;

/// A longer reason in a reply is cut, because it is logged in one line.
const LONGEST_REASON: usize = 512;

/// A pod's network namespace was made, and no process is in it yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The pod. Its UID is missing from runtimes that do not give it (cri-dockerd).
    #[serde(flatten)]
    pub pod: PodName,
    #[serde(rename = "containerId")]
    pub sandbox: SandboxId,
    /// The interface that the previous plugins created.
    #[serde(rename = "ifname")]
    pub interface: String,
}

/// What the agent did with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Held,
    /// The pod needs no hold, or none now.
    NotHeld,
    /// The pod should have been held and could not be.
    Failed,
}

#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum InvalidMessage {
    #[error("message of {length} bytes, more than {LONGEST_MESSAGE}")]
    TooLong { length: usize },
    #[error("message cannot be read")]
    Json(#[source] serde_json::Error),
    #[error("message of protocol {found}, not {PROTOCOL}")]
    Protocol { found: u32 },
}

impl InvalidMessage {
    /// The label in metrics.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

/// Only the version: the rest of a message is decoded if the version is supported.
#[derive(Deserialize)]
struct Numbered {
    version: u32,
}

#[derive(Serialize)]
struct Versioned<'a, T> {
    version: u32,
    #[serde(flatten)]
    message: &'a T,
}

impl Request {
    pub fn encode(&self) -> Result<Vec<u8>, InvalidMessage> {
        encode(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidMessage> {
        decode(bytes)
    }
}

impl Reply {
    /// A long reason is cut.
    pub fn encode(&self) -> Result<Vec<u8>, InvalidMessage> {
        let cut = |reason: &String| reason.chars().take(LONGEST_REASON).collect();
        encode(&Self {
            outcome: self.outcome,
            reason: self.reason.as_ref().map(cut),
        })
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidMessage> {
        decode(bytes)
    }
}

fn encode(message: &impl Serialize) -> Result<Vec<u8>, InvalidMessage> {
    let message = Versioned {
        version: PROTOCOL,
        message,
    };
    let bytes = serde_json::to_vec(&message).map_err(InvalidMessage::Json)?;
    bounded(&bytes)?;
    Ok(bytes)
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, InvalidMessage> {
    bounded(bytes)?;
    let Numbered { version } = serde_json::from_slice(bytes).map_err(InvalidMessage::Json)?;
    if version != PROTOCOL {
        return Err(InvalidMessage::Protocol { found: version });
    }
    serde_json::from_slice(bytes).map_err(InvalidMessage::Json)
}

fn bounded(bytes: &[u8]) -> Result<(), InvalidMessage> {
    let length = bytes.len();
    if length > LONGEST_MESSAGE {
        return Err(InvalidMessage::TooLong { length });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
