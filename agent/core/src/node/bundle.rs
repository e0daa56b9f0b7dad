//! Maps an OCI bundle to pod and container, from the bundle's `config.json`, some 60 ms before the container's first
//! instruction.
//!
//! The file is the configuration of the
//! [OCI runtime specification](https://github.com/opencontainers/runtime-spec/blob/v1.2.0/config.md#annotations); its annotations are
//! [those of containerd's CRI plugin](https://github.com/containerd/containerd/blob/v2.4.2/internal/cri/annotations/annotations.go).
//! containerd has written [`CONTAINER_TYPE`] since its CRI plugin is part of it (1.1), [`CONTAINER_NAME`] since 1.4
//! ([cri#1436](https://github.com/containerd/cri/pull/1436)) and [`SANDBOX_UID`] since 1.7.0 and 1.6.11
//! ([#7697](https://github.com/containerd/containerd/pull/7697), [#7735](https://github.com/containerd/containerd/pull/7735)).
//! CRI-O writes others.
//!
//! The file is written in place, so a reader may find an incomplete file. The other members of the file, 4 to 60 kB,
//! are skipped.

use serde::Deserialize;

use crate::{base::id::PodUid, pod::spec::is_container_name};

/// Annotation: `container` or `sandbox`.
pub const CONTAINER_TYPE: &str = "io.kubernetes.cri.container-type";

/// Annotation: the container's name in its pod; a sandbox has none.
pub const CONTAINER_NAME: &str = "io.kubernetes.cri.container-name";

/// Annotation: the pod's UID.
pub const SANDBOX_UID: &str = "io.kubernetes.cri.sandbox-uid";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    pub pod: PodUid,
    /// Name of the container; None for the pod's sandbox.
    pub container: Option<String>,
}

/// Why a configuration does not identify the bundle's pod and container.
#[derive(Debug, thiserror::Error)]
pub enum NotABundle {
    /// The text is incomplete, because the runtime is writing it: read it again.
    #[error("the bundle's configuration is not whole yet")]
    Incomplete,
    #[error("the bundle's configuration cannot be read")]
    NotJson(#[source] serde_json::Error),
    #[error("the bundle's annotation {annotation} {}", what_is_wrong(value.as_deref()))]
    Foreign {
        /// The first annotation that is absent or has an invalid value.
        annotation: &'static str,
        /// The beginning of the invalid value.
        value: Option<String>,
    },
}

#[derive(Deserialize)]
struct Config {
    annotations: Option<Annotations>,
}

#[derive(Deserialize, Default)]
struct Annotations {
    #[serde(rename = "io.kubernetes.cri.container-type")]
    container_type: Option<String>,
    #[serde(rename = "io.kubernetes.cri.container-name")]
    container_name: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-uid")]
    sandbox_uid: Option<String>,
}

/// Reads a `config.json`.
pub fn parse(json: &[u8]) -> Result<Bundle, NotABundle> {
    let config: Config = serde_json::from_slice(json).map_err(|source| {
        if source.is_eof() {
            NotABundle::Incomplete
        } else {
            NotABundle::NotJson(source)
        }
    })?;
    let annotations = config.annotations.unwrap_or_default();
    let is_sandbox = match annotations.container_type.as_deref() {
        Some("container") => false,
        Some("sandbox") => true,
        other => return Err(foreign(CONTAINER_TYPE, other)),
    };
    let uid = annotations.sandbox_uid.as_deref();
    let pod = uid.and_then(|uid| PodUid::parse(uid).ok());
    let pod = pod.ok_or_else(|| foreign(SANDBOX_UID, uid))?;
    let name = annotations.container_name;
    let container = match name {
        _ if is_sandbox => None,
        Some(name) if is_container_name(&name) => Some(name),
        other => return Err(foreign(CONTAINER_NAME, other.as_deref())),
    };
    Ok(Bundle { pod, container })
}

fn foreign(annotation: &'static str, value: Option<&str>) -> NotABundle {
    NotABundle::Foreign {
        annotation,
        value: value.map(|value| value.chars().take(64).collect()),
    }
}

fn what_is_wrong(value: Option<&str>) -> String {
    value.map_or_else(
        || "is absent".to_owned(),
        |value| format!("cannot be {value:?}"),
    )
}

#[cfg(test)]
mod tests;
