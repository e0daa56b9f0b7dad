//! The run directory: what has to survive a restart of the agent.
//!
//! | file | what |
//! | --- | --- |
//! | `node-annotations.json` | the Node's annotations that concern usher, as last seen |
//! | `namespaces.json` | the same of Namespaces, with their labels |
//! | `config.yaml` | the last configuration that was good |
//! | `timeline.jsonl` | what was decided about each pod |
//! | `cni.sock` | where the CNI plugin announces pods |
//! | `admin.sock` | where the program `usher` asks |
//! | `cni.log`, `cni.log.1` | why the plugin could not, written by it |
//!
//! An agent that starts while the API server is away, or with a configuration
//! that is broken, goes on as before.

pub mod namespaces;
pub mod socket;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::crash_point;

/// The Node's annotations.
pub const NODE_ANNOTATIONS: &str = "node-annotations.json";
/// What Namespaces say.
pub const NAMESPACES: &str = "namespaces.json";
/// The last good configuration.
pub const CONFIG: &str = "config.yaml";
/// The socket of the CNI plugin.
pub const CNI_SOCKET: &str = "cni.sock";
/// The socket of the program `usher`.
pub const ADMIN_SOCKET: &str = "admin.sock";
/// All sockets.
pub const SOCKETS: [&str; 2] = [CNI_SOCKET, ADMIN_SOCKET];
/// The journal of decisions.
pub const TIMELINE: &str = "timeline.jsonl";

/// What is written anew is this behind its name until it is whole.
const UNFINISHED: &str = ".new";
/// Every file here that is usher's, so that nothing else is removed and nothing of usher stays.
const OURS: [&str; 6] = [
    NODE_ANNOTATIONS,
    NAMESPACES,
    CONFIG,
    TIMELINE,
    "cni.log",
    "cni.log.1",
];

/// Whether a file of this name is usher's. The socket is none.
pub fn is_ours(name: &str) -> bool {
    let name = name.strip_suffix(UNFINISHED).unwrap_or(name);
    OURS.contains(&name)
}

/// Annotations by key.
pub type Annotations = BTreeMap<String, String>;

/// The run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
pub fn load<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Option<T>, Error> {
    let Some(text) = load_text(dir, name)? else {
        return Ok(None);
    };
    let path = dir.join(name);
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|source| Error::Form { path, source })
}

/// Reads a text back; None where there is none.
pub fn load_text(dir: &Path, name: &str) -> Result<Option<String>, Error> {
    let path = dir.join(name);
    match fs::read(&path) {
        // A text that was cut off in the middle of a character is half a line.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read { path, source }),
    }
}

/// Keeps a value.
pub fn save(dir: &Path, name: &str, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(value).map_err(|source| Error::Form {
        path: dir.join(name),
        source,
    })?;
    save_text(dir, name, &text)
}

/// Keeps a text. Whoever reads sees the old one or the new one.
pub fn save_text(dir: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = dir.join(name);
    let new = dir.join(format!("{name}{UNFINISHED}"));
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let mut file = File::create(&new)?;
        crash_point::reach("file-begun", name);
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        crash_point::reach("file-whole", name);
        fs::rename(&new, &path)?;
        crash_point::reach("file-kept", name);
        Ok(())
    };
    write().map_err(|source| {
        // Where the disk is full what has begun would keep the little room that there is.
        drop(fs::remove_file(&new));
        Error::Write {
            path: path.clone(),
            source,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_saved_is_known_to_be_ours() {
        for name in OURS {
            assert!(is_ours(name) && is_ours(&format!("{name}{UNFINISHED}")));
        }
        for other in ["", ".new", "cni.sock", "notes", "timeline.jsonl.old"] {
            assert!(!is_ours(other), "{other}");
        }
        let log = Path::new(usher_core::cni::protocol::DEFAULT_LOG_FILE);
        assert!(
            log.file_name()
                .is_some_and(|name| is_ours(&name.to_string_lossy()))
        );
    }
}
