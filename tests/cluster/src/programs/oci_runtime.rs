//! The program that creates the containers of a node, and that containerd's shim runs for each command.

use std::{fmt, path::PathBuf, str::FromStr};

use anyhow::{Error, Result, bail};

use super::debian;

/// The runtime of a cluster, which keeps its initial one. Both are Debian's packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OciRuntime {
    #[default]
    Runc,
    Crun,
}

impl fmt::Display for OciRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Runc => "runc",
            Self::Crun => "crun",
        })
    }
}

impl FromStr for OciRuntime {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "runc" => Ok(Self::Runc),
            "crun" => Ok(Self::Crun),
            other => bail!("runtime {other:?}: runc or crun"),
        }
    }
}

impl OciRuntime {
    /// Its program, installed if it is missing.
    pub(crate) fn program(self) -> Result<PathBuf> {
        let name = self.to_string();
        debian::ensure_package(&name, &name)
    }
}
