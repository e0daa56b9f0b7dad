//! Messages between the agent and its holder: JSON on a socket of type SOCK_SEQPACKET, so that a message is never
//! divided. Both ends are of the same binary.

use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::base::id::ContainerId;

pub const LONGEST_MESSAGE: usize = 4096;
/// Limit of a reason, in characters.
const LONGEST_REASON: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub enum Order {
    /// Hold the start of this container. The message carries descriptors of its bundle and its root.
    Mark {
        container: ContainerId,
        limit: Duration,
    },
    /// Mark these mounts as well, which may contain the program of this container. The message carries their
    /// descriptors.
    Volumes { container: ContainerId },
    /// Release the start of this container. The message carries descriptors of its root and of those mounts, while they
    /// exist.
    Release { container: ContainerId },
    /// Hold the first stop signal of this container. The message carries a descriptor of its runtime state.
    ArmStop {
        container: ContainerId,
        limit: Duration,
    },
    /// Release the stop signal of this container.
    ReleaseStop { container: ContainerId },
}

/// A message of the holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "kebab-case")]
pub enum News {
    /// The holder holds starts from now on.
    Ready,
    /// [`Order::Mark`] is done.
    Marked {
        container: ContainerId,
    },
    /// [`Order::Volumes`] is done, or no longer needed.
    VolumesMarked {
        container: ContainerId,
    },
    /// [`Order::Mark`] or [`Order::Volumes`] failed.
    Unable {
        container: ContainerId,
        reason: String,
    },
    /// The kernel denied an exec, because it could not open the program for the holder.
    Denied {
        /// The container of the exec, if it is known; it is no longer marked.
        container: Option<ContainerId>,
        reason: String,
    },
    Held {
        container: ContainerId,
    },
    /// The start of this container is no longer held.
    Released {
        container: ContainerId,
        /// For how long it was held, if it was.
        held: Option<Duration>,
        at_limit: bool,
    },
    /// [`Order::ArmStop`] is done.
    StopArmed {
        container: ContainerId,
    },
    /// [`Order::ArmStop`] failed.
    StopUnable {
        container: ContainerId,
        reason: String,
    },
    StopHeld {
        container: ContainerId,
    },
    StopReleased {
        container: ContainerId,
        /// For how long it was held, if it was.
        held: Option<Duration>,
        at_limit: bool,
    },
}

#[derive(Debug, thiserror::Error)]
#[error("invalid message between agent and holder")]
pub struct InvalidMessage(#[from] serde_json::Error);

impl Order {
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidMessage> {
        decode(bytes)
    }
}

impl News {
    /// [`News::Unable`], with a bounded reason.
    pub fn unable(container: ContainerId, reason: &str) -> Self {
        let reason = bounded(reason);
        Self::Unable { container, reason }
    }

    /// [`News::StopUnable`], with a bounded reason.
    pub fn stop_unable(container: ContainerId, reason: &str) -> Self {
        let reason = bounded(reason);
        Self::StopUnable { container, reason }
    }

    /// [`News::Denied`], with a bounded reason.
    pub fn denied(container: Option<ContainerId>, reason: &str) -> Self {
        let reason = bounded(reason);
        Self::Denied { container, reason }
    }

    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidMessage> {
        decode(bytes)
    }
}

fn bounded(reason: &str) -> String {
    reason.chars().take(LONGEST_REASON).collect()
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    // Plain data: this cannot fail.
    serde_json::to_vec(message).unwrap_or_default()
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, InvalidMessage> {
    Ok(serde_json::from_slice(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_decoded_as_it_was_encoded() {
        let container = || ContainerId::parse(&"c0".repeat(32)).unwrap();
        let limit = Duration::from_micros(12_345_678);
        let orders = [
            Order::Mark {
                container: container(),
                limit,
            },
            Order::Volumes {
                container: container(),
            },
            Order::Release {
                container: container(),
            },
            Order::ArmStop {
                container: container(),
                limit,
            },
            Order::ReleaseStop {
                container: container(),
            },
        ];
        for order in orders {
            assert_eq!(Order::decode(&order.encode()).unwrap(), order);
        }
        let news = [
            News::Ready,
            News::denied(None, "EACCES"),
            News::denied(Some(container()), &"\u{1}long ".repeat(1000)),
            News::Marked {
                container: container(),
            },
            News::VolumesMarked {
                container: container(),
            },
            News::unable(container(), &"\u{1}long ".repeat(1000)),
            News::Held {
                container: container(),
            },
            News::Released {
                container: container(),
                held: Some(limit),
                at_limit: true,
            },
            News::StopArmed {
                container: container(),
            },
            News::stop_unable(container(), &"\u{1}long ".repeat(1000)),
            News::StopHeld {
                container: container(),
            },
            News::StopReleased {
                container: container(),
                held: Some(limit),
                at_limit: true,
            },
        ];
        for news in news {
            let message = news.encode();
            assert!(message.len() <= LONGEST_MESSAGE, "{}", message.len());
            assert_eq!(News::decode(&message).unwrap(), news);
        }
    }

    #[test]
    fn invalid_messages() {
        for text in [
            "",
            "{}",
            r#"{"order":"dance"}"#,
            r#"{"order":"release","container":7}"#,
        ] {
            assert!(Order::decode(text.as_bytes()).is_err(), "{text}");
            assert!(News::decode(text.as_bytes()).is_err(), "{text}");
        }
    }
}
