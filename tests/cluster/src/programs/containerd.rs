//! The node's container runtime: Debian's containerd 1.6, or a containerd 2 built from the Go module proxy.
//!
//! The node's search path selects one: the programs of containerd 2 are linked to come first.
//! The configuration file, runc and the CNI plugins are the same for both.

use std::{fmt, path::PathBuf, str::FromStr};

use anyhow::{Result, bail};

use super::{go, sources};
use crate::{cache, progress::say};

const NAME: &str = "containerd";
const MODULE: &str = "github.com/containerd/containerd/v2";
/// Without snapshotters for features that a node lacks, and the export of traces.
const TAGS: &str = "no_devmapper,no_zfs,no_tracing";
/// The daemon, the process beside each pod, and the client.
const PROGRAMS: [&str; 3] = ["containerd", "containerd-shim-runc-v2", "ctr"];

/// The containerd of a cluster, which keeps its initial one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Containerd {
    /// Debian's package, version 1.6 in Debian 12.
    #[default]
    Debian,
    /// The version in `programs/containerd/go.mod`: one and a half minutes to build.
    Two,
}

impl fmt::Display for Containerd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Debian => "1.6",
            Self::Two => "2",
        })
    }
}

impl FromStr for Containerd {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "1.6" => Ok(Self::Debian),
            "2" => Ok(Self::Two),
            other => bail!("containerd {other:?}: 1.6 or 2"),
        }
    }
}

impl Containerd {
    /// The programs that precede the machine's own, built if they are not in the cache.
    pub(super) fn programs(self) -> Result<Vec<PathBuf>> {
        match self {
            Self::Debian => Ok(Vec::new()),
            Self::Two => build(),
        }
    }
}

fn build() -> Result<Vec<PathBuf>> {
    let source = sources().join(NAME);
    let version = go::version(&source, MODULE)?;
    let args = [
        "-tags".to_owned(),
        TAGS.to_owned(),
        "-ldflags".to_owned(),
        format!("-s -w -X {MODULE}/version.Version={version}"),
    ];
    let entry = cache::entry(NAME, &go::key(&source, &args)?, |dir| {
        say(&format!(
            "Building containerd {version} from source: about 1 minute and a half on two cores, once"
        ));
        go::build_into(NAME, &source, &args, "tool", dir)
    })?;
    Ok(PROGRAMS.map(|program| entry.join(program)).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_name_round_trips() {
        for choice in [Containerd::Debian, Containerd::Two] {
            assert_eq!(choice.to_string().parse::<Containerd>().unwrap(), choice);
        }
        assert!("1.7".parse::<Containerd>().is_err());
    }
}
