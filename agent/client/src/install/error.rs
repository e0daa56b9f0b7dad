//! Errors of operations on the host's files.

use std::{io, path::PathBuf};

use usher_core::cni::conflist;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{doing} {path:?}")]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{path:?} is not a file, or larger than {longest} bytes")]
    NotAFile { path: PathBuf, longest: u64 },
    #[error("more than {most} network configurations in {dir:?}")]
    TooMany { dir: PathBuf, most: usize },
    #[error("{path:?} is not UTF-8")]
    NotText { path: PathBuf },
    #[error("{path:?} cannot be edited")]
    Conf {
        path: PathBuf,
        source: conflist::Error,
    },
    #[error(
        "{path:?} is another network configuration, where the list made of {made_of:?} has to go"
    )]
    Occupied { path: PathBuf, made_of: String },
    #[error(
        "{dir:?} has none of the CNI plugins of {conf:?} ({types}), so the runtime has its plugins elsewhere"
    )]
    NoPlugins {
        dir: PathBuf,
        conf: PathBuf,
        types: String,
    },
    #[error(
        "{path:?} is a symbolic link to {target:?}, which this process cannot read, but a runtime may: replace the link by \
         the file, or remove the link if the node does not have its target"
    )]
    HiddenLink { path: PathBuf, target: PathBuf },
    #[error("another process changed {path:?} at the same time")]
    Changed { path: PathBuf },
    #[error("{path:?} still names the plugin, so its binary stays")]
    StillNamed { path: PathBuf },
}

impl Error {
    /// Whether other directories of the host would fix the error.
    pub fn is_about_directories(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::NoPlugins { .. })
    }

    /// The error of an operation on a path, for `map_err`.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }
}
