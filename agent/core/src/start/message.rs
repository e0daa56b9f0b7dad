//! What the agent and its holder say to each other: JSON on a socket of type
//! SOCK_SEQPACKET, so that a message is never divided. Both ends are of the same
//! binary.

use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::base::id::ContainerId;

/// No message is longer.
pub const LONGEST_MESSAGE: usize = 4096;
/// A reason is cut here, in characters.
const LONGEST_REASON: usize = 400;

/// What the agent asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub enum Order {
    /// Hold the start of this container. With it come descriptors of its bundle
    /// and of its root.
    Mark {
        container: ContainerId,
        /// How long at most.
        limit: Duration,
    },
    /// With it come descriptors of mounts on which the program of this container
    /// may lie.
    Volumes { container: ContainerId },
    /// Do not hold the start of this container any more. With it come
    /// descriptors of its root and of those mounts, while it has them.
    Release { container: ContainerId },
}

/// What the holder reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "kebab-case")]
pub enum News {
    /// It holds starts from now on.
    Ready,
    /// [`Order::Mark`] is done.
    Marked { container: ContainerId },
    /// [`Order::Mark`] or [`Order::Volumes`] cannot be done.
    Unable {
        container: ContainerId,
        reason: String,
    },
    /// The kernel refused an exec that it asked about: it ends, and is not to be
    /// started again.
    Refused { reason: String },
    /// The start of this container is held.
    Held { container: ContainerId },
    /// The start of this container is not held any more.
    Released {
        container: ContainerId,
        /// How long it was, if it was.
        held: Option<Duration>,
        at_limit: bool,
    },
}

/// What came is no message.
#[derive(Debug, thiserror::Error)]
#[error("message between agent and holder cannot be read")]
pub struct InvalidMessage(#[from] serde_json::Error);

impl Order {
    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads what came.
    ///
    /// # Errors
    /// [`InvalidMessage`].
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidMessage> {
        decode(bytes)
    }
}

impl News {
    /// [`News::Unable`], with a reason that fits.
    pub fn unable(container: ContainerId, reason: &str) -> Self {
        let reason = reason.chars().take(LONGEST_REASON).collect();
        Self::Unable { container, reason }
    }

    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads what came.
    ///
    /// # Errors
    /// [`InvalidMessage`].
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidMessage> {
        decode(bytes)
    }
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    // Plain data: it cannot fail.
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
        ];
        for order in orders {
            assert_eq!(Order::decode(&order.encode()).unwrap(), order);
        }
        let news = [
            News::Ready,
            News::Refused {
                reason: "no".to_owned(),
            },
            News::Marked {
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
        ];
        for news in news {
            let message = news.encode();
            assert!(message.len() <= LONGEST_MESSAGE, "{}", message.len());
            assert_eq!(News::decode(&message).unwrap(), news);
        }
    }

    #[test]
    fn what_is_no_message() {
        for text in [
            "",
            "{}",
            r#"{"order":"dance"}"#,
            r#"{"order":"let-go","container":"x"}"#,
        ] {
            assert!(Order::decode(text.as_bytes()).is_err(), "{text}");
            assert!(News::decode(text.as_bytes()).is_err(), "{text}");
        }
    }
}
