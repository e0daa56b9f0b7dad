//! Identifiers as newtypes, so that one id is never passed as another.
//!
//! A UID identifies a pod, the device and inode of its file a network namespace, the runtime's id a container. Names,
//! IP addresses and bare pids identify nothing: they are reused.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {what}: {text:?}")]
pub struct InvalidId {
    what: &'static str,
    text: String,
}

impl InvalidId {
    fn new(what: &'static str, text: &str) -> Self {
        // An invalid id may be as long as a path, which is too long for a log line.
        let text = text.chars().take(128).collect();
        Self { what, text }
    }
}

/// UID of a pod, as the API writes it (`8-4-4-4-12` hex digits, or 32 hex digits for a static pod).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PodUid(Arc<str>);

impl PodUid {
    /// Parses the UID as the API or the cgroupfs driver writes it.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let dashes = text.bytes().filter(|byte| *byte == b'-').count();
        let hex = text.bytes().filter(u8::is_ascii_hexdigit).count();
        let dashed = text.len() == 36
            && dashes == 4
            && [8, 13, 18, 23]
                .iter()
                .all(|at| text.as_bytes()[*at] == b'-');
        let mirror = text.len() == 32 && dashes == 0;
        if (dashed || mirror) && hex + dashes == text.len() {
            Ok(Self(text.into()))
        } else {
            Err(InvalidId::new("pod UID", text))
        }
    }
}

/// Id that the container runtime gave a container (or a sandbox): hex digits, 64 of them from containerd and CRI-O.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContainerId(Arc<str>);

impl ContainerId {
    /// Parses an id without a scheme.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let long_enough = (12..=128).contains(&text.len());
        if long_enough && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidId::new("container id", text))
        }
    }

    /// Parses an id of a pod's status: `containerd://<id>`.
    pub fn parse_url(text: &str) -> Result<Self, InvalidId> {
        match text.split_once("://") {
            Some((_runtime, id)) => Self::parse(id),
            None => Err(InvalidId::new("container URL", text)),
        }
    }
}

/// Id that the container runtime gives a pod's sandbox when it calls a CNI plugin, in the characters that
/// [the specification](https://www.cni.dev/docs/spec/#parameters) allows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SandboxId(Arc<str>);

impl SandboxId {
    /// Parses the value of `CNI_CONTAINERID`.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let begins = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        if begins && text.len() <= 128 && text.bytes().all(fits) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidId::new("sandbox id", text))
        }
    }
}

/// A network namespace: device and inode number of its nsfs file.
///
/// Unlike a path or a pid, it is not reused while a process keeps the namespace open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NetnsId {
    /// `st_dev` of the namespace file.
    pub dev: u64,
    /// `st_ino` of the namespace file, the number in `net:[4026531840]`.
    pub ino: u64,
}

/// Process id in the host's pid namespace; valid only together with a pidfd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pid(pub i32);

macro_rules! text_id {
    ($name:ident) => {
        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}({})", stringify!($name), self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.as_str().to_owned()
            }
        }
    };
}

text_id!(PodUid);
text_id!(ContainerId);
text_id!(SandboxId);

impl fmt::Display for NetnsId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "net:[{}]", self.ino)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// One run of a container in a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContainerKey {
    pub pod: PodUid,
    /// The run: a restarted container has another id.
    pub id: ContainerId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_uids() {
        for good in [
            "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11",
            "5f2b7d1c9e8a4b3c2d1e0f9a8b7c6d5e",
        ] {
            assert_eq!(PodUid::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "pod",
            "0d7e0c5c_6f0c_4b5a_9c1d_8a6d8a0f2b11",
            "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b1g",
            "0d7e0c5c6-f0c-4b5a-9c1d-8a6d8a0f2b11",
            "0d7e0c5c06f0c04b5a09c1d08a6d8a0f2b11",
            "0d7e0c5c-6f0c-4b5a-9c1d-8a6d-a0f2b11",
            "----",
            "../../../../../../../../../etc/passwd",
        ] {
            assert!(PodUid::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn container_ids() {
        let id = "3f".repeat(32);
        let url = format!("containerd://{id}");
        assert_eq!(ContainerId::parse_url(&url).unwrap().as_str(), id);
        for bad in ["", "abc", "containerd://", "kubepods", &"g".repeat(64)] {
            assert!(ContainerId::parse(bad).is_err(), "{bad}");
        }
        assert!(ContainerId::parse_url(&id).is_err());
    }

    #[test]
    fn sandbox_ids() {
        for good in ["3f", "cnitool-77383ca0a0715733ca6f", "A_b.c"] {
            assert_eq!(SandboxId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", ".", "a/b", "ä", &"a".repeat(129)] {
            assert!(SandboxId::parse(bad).is_err(), "{bad}");
        }
    }
}
