//! The Kubernetes of a cluster, built from the Go module proxy: one program with etcd, every component and kubectl.
//!
//! The sources of the default version are in `programs/kubernetes`, those of another one in a folder there.

use std::{fmt, path::PathBuf, str::FromStr};

use anyhow::{Result, bail};

use super::{go, sources};
use crate::{cache, progress::say};

const NAME: &str = "kubernetes";
const MODULE: &str = "k8s.io/kubernetes";
/// The packages whose version the linker sets.
const VERSIONED: [&str; 2] = [
    "k8s.io/component-base/version",
    "k8s.io/client-go/pkg/version",
];

/// The Kubernetes of a cluster, which keeps its initial one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Kubernetes {
    /// The last minor version whose kubelet requires `nodes/proxy` for its list of pods.
    V1_32,
    #[default]
    V1_36,
}

impl fmt::Display for Kubernetes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_32 => "1.32",
            Self::V1_36 => "1.36",
        })
    }
}

impl FromStr for Kubernetes {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "1.32" => Ok(Self::V1_32),
            "1.36" => Ok(Self::V1_36),
            other => bail!("Kubernetes {other:?}: 1.36 or 1.32"),
        }
    }
}

impl Kubernetes {
    fn sources(self) -> PathBuf {
        let newest = sources().join(NAME);
        match self {
            Self::V1_32 => newest.join("1.32"),
            Self::V1_36 => newest,
        }
    }

    /// The program, built if it is not in the cache. Its first argument selects a component.
    pub(super) fn program(self) -> Result<PathBuf> {
        let source = self.sources();
        let version = go::version(&source, MODULE)?;
        let args = ["-ldflags".to_owned(), linker_flags(&version)];
        let entry = cache::entry(NAME, &go::key(&source, &args)?, |dir| {
            say(&format!(
                "Building Kubernetes {version} from source: about 5 minutes on two cores, once"
            ));
            go::build(NAME, &source, &args, ".", dir)
        })?;
        Ok(entry.join(NAME))
    }
}

/// Without the stamp the components report v0.0.0 and refuse to work with each other.
fn linker_flags(version: &str) -> String {
    let minor = version.split('.').nth(1).unwrap_or_default();
    let stamps = VERSIONED.map(|package| {
        format!(
            "-X {package}.gitVersion={version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor} \
             -X {package}.gitTreeState=archive -X {package}.gitCommit=unknown"
        )
    });
    format!("-s -w {}", stamps.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamp_names_version_and_minor() {
        let flags = linker_flags("v1.36.3");
        assert!(flags.starts_with("-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 "));
        assert!(flags.contains("-X k8s.io/client-go/pkg/version.gitMinor=36 "));
    }

    #[test]
    fn version_round_trips_and_is_that_of_its_module_files() {
        for kubernetes in [Kubernetes::V1_32, Kubernetes::V1_36] {
            let text = kubernetes.to_string();
            assert_eq!(text.parse::<Kubernetes>().unwrap(), kubernetes);
            let version = go::version(&kubernetes.sources(), MODULE).unwrap();
            assert!(version.starts_with(&format!("v{text}.")), "{version}");
        }
        assert!("1.31".parse::<Kubernetes>().is_err());
    }
}
