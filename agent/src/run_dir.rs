//! The run directory: what has to survive a restart of the agent.
//!
//! `node-annotations.json` holds the annotations of the Node that concern
//! usher, as last seen, so that an agent that starts while the API server is
//! away goes on as before.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

const NODE_ANNOTATIONS: &str = "node-annotations.json";

/// Annotations by key.
pub(crate) type Annotations = BTreeMap<String, String>;

/// The run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("reading {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path:?} is not a JSON object of strings")]
    Form {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("writing {path:?}")]
    Write { path: PathBuf, source: io::Error },
}

/// The last known annotations; None where there are none.
pub(crate) fn load(dir: &Path) -> Result<Option<Annotations>, Error> {
    let path = dir.join(NODE_ANNOTATIONS);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Read { path, source }),
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|source| Error::Form { path, source })
}

/// Keeps the annotations. Whoever reads sees the old ones or the new ones.
pub(crate) fn save(dir: &Path, annotations: &Annotations) -> Result<(), Error> {
    let path = dir.join(NODE_ANNOTATIONS);
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let new = dir.join(format!("{NODE_ANNOTATIONS}.new"));
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(annotations)?)?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    write().map_err(|source| Error::Write {
        path: path.clone(),
        source,
    })
}
