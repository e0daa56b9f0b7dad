//! The run directory: what has to survive a restart of the agent.
//!
//! | file | what |
//! | --- | --- |
//! | `node-annotations.json` | the Node's annotations that concern usher, as last seen |
//! | `namespaces.json` | the same of Namespaces, with their labels |
//! | `config.yaml` | the last configuration that was good |
//! | `timeline.jsonl` | what was decided about each pod |
//! | `cni.sock` | where the CNI plugin announces pods |
//!
//! An agent that starts while the API server is away, or with a configuration
//! that is broken, goes on as before.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

/// The Node's annotations.
pub(crate) const NODE_ANNOTATIONS: &str = "node-annotations.json";
/// What Namespaces say.
pub(crate) const NAMESPACES: &str = "namespaces.json";
/// The last good configuration.
pub(crate) const CONFIG: &str = "config.yaml";
/// The socket of the CNI plugin.
pub(crate) const CNI_SOCKET: &str = "cni.sock";
/// The journal of decisions.
pub(crate) const TIMELINE: &str = "timeline.jsonl";

/// Annotations by key.
pub(crate) type Annotations = BTreeMap<String, String>;

/// The run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("reading {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path:?} is not what was written there")]
    Form {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("writing {path:?}")]
    Write { path: PathBuf, source: io::Error },
}

/// Reads a file back; None where there is none.
pub(crate) fn load<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Option<T>, Error> {
    let Some(text) = load_text(dir, name)? else {
        return Ok(None);
    };
    let path = dir.join(name);
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|source| Error::Form { path, source })
}

/// Reads a text back; None where there is none.
pub(crate) fn load_text(dir: &Path, name: &str) -> Result<Option<String>, Error> {
    let path = dir.join(name);
    match fs::read(&path) {
        // A text that was cut off in the middle of a character is half a line.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read { path, source }),
    }
}

/// Keeps a value.
pub(crate) fn save(dir: &Path, name: &str, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(value).map_err(|source| Error::Form {
        path: dir.join(name),
        source,
    })?;
    save_text(dir, name, &text)
}

/// Keeps a text. Whoever reads sees the old one or the new one.
pub(crate) fn save_text(dir: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = dir.join(name);
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let new = dir.join(format!("{name}.new"));
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    write().map_err(|source| Error::Write {
        path: path.clone(),
        source,
    })
}
