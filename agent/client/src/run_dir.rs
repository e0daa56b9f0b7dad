//! The run directory: state that survives a restart of the agent, and its sockets.
//!
//! | file | contents |
//! | --- | --- |
//! | `node-annotations.json`, `node-labels.json` | usher's annotations and labels on the Node, as last received |
//! | `namespaces.json` | usher's annotations and labels on Namespaces, as last received |
//! | `config.yaml` | the last valid configuration |
//! | `timeline.jsonl` | the decisions about each pod |
//! | `cni.sock` | socket where the CNI plugin announces pods |
//! | `admin.sock` | socket of the command-line tool `usher` |
//! | `cni.log`, `cni.log.1` | errors of the plugin, which writes them |
//! | `NAME.unreadable` | a file that an agent could not read when it started |
//!
//! With these files, an agent that starts without the API server, or with an invalid configuration, works as before.

pub mod namespaces;
mod node_values;
pub mod socket;

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, BufReader, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

pub use self::node_values::load_node_values;
use crate::crash_point;

pub const NODE_ANNOTATIONS: &str = "node-annotations.json";
pub const NODE_LABELS: &str = "node-labels.json";
pub const NAMESPACES: &str = "namespaces.json";
pub const CONFIG: &str = "config.yaml";
pub const CNI_SOCKET: &str = "cni.sock";
pub const ADMIN_SOCKET: &str = "admin.sock";
pub const SOCKETS: [&str; 2] = [CNI_SOCKET, ADMIN_SOCKET];
pub const TIMELINE: &str = "timeline.jsonl";

/// Suffix of a file that is being written.
const UNFINISHED: &str = ".new";
/// Suffix of a file that could not be read.
const UNREADABLE: &str = ".unreadable";
/// All of usher's files in the run directory. The cleanup removes only these.
const OURS: [&str; 7] = [
    NODE_ANNOTATIONS,
    NODE_LABELS,
    NAMESPACES,
    CONFIG,
    TIMELINE,
    "cni.log",
    "cni.log.1",
];

/// Whether usher creates a file of this name. Does not include sockets.
pub fn is_ours(name: &str) -> bool {
    let suffixes = [UNFINISHED, UNREADABLE];
    let base = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
    OURS.contains(&base.unwrap_or(name))
}

/// Why a file of the run directory could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("invalid contents of {path:?}")]
    Form {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("writing {path:?}")]
    Write { path: PathBuf, source: io::Error },
}

/// Reads a value; None if the file does not exist.
pub fn load<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Option<T>, Error> {
    let path = dir.join(name);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Read { path, source }),
    };
    // Not the whole text at once: a file of an earlier agent may have many MiB.
    let parsed = serde_json::from_reader(BufReader::new(file));
    parsed.map(Some).map_err(|source| {
        if source.is_io() {
            let source = source.into();
            Error::Read { path, source }
        } else {
            Error::Form { path, source }
        }
    })
}

/// Reads a text; None if the file does not exist.
pub fn load_text(dir: &Path, name: &str) -> Result<Option<String>, Error> {
    let path = dir.join(name);
    match fs::read(&path) {
        // Lossy conversion: a write that ended within a character affects only the last line.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read { path, source }),
    }
}

/// Renames a file that could not be read, so that the next save does not replace it: it may be intact. The file of an
/// earlier failure is replaced.
pub fn set_aside(dir: &Path, name: &str) {
    let path = dir.join(name);
    // Others are no files of usher, and the cleanup would not remove them.
    if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
        return;
    }
    let aside = dir.join(format!("{name}{UNREADABLE}"));
    match fs::rename(&path, &aside) {
        Ok(()) => tracing::info!(file = %aside.display(), "kept the file that could not be read"),
        Err(error) => tracing::warn!(
            file = %path.display(),
            %error,
            "could not rename the file that could not be read; the next save replaces it"
        ),
    }
}

/// Saves a value atomically.
///
/// # Errors
/// When the file cannot be written. The old file stays.
pub fn save(dir: &Path, name: &str, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(value).map_err(|source| Error::Form {
        path: dir.join(name),
        source,
    })?;
    save_text(dir, name, &text)
}

/// Saves a text atomically: readers find the old text or the new one.
///
/// # Errors
/// When the file cannot be written. The old file stays.
pub fn save_text(dir: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = dir.join(name);
    let new = dir.join(format!("{name}{UNFINISHED}"));
    let write = || -> io::Result<()> {
        create_dir(dir)?;
        let mut file = create(&new)?;
        crash_point::reach("file-begun", name);
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        crash_point::reach("file-whole", name);
        fs::rename(&new, &path)?;
        crash_point::reach("file-kept", name);
        Ok(())
    };
    write().map_err(|source| {
        // On a full disk the unfinished file would occupy the last free blocks.
        drop(fs::remove_file(&new));
        Error::Write {
            path: path.clone(),
            source,
        }
    })
}

/// For root only, because the files have the names of pods and the reasons of decisions.
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Creates the run directory for root only. Also restricts an existing one, such as the kubelet creates.
fn create_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIR_MODE)
        .create(dir)?;
    // Fails if another user owns the directory. The files are private in any case.
    drop(fs::set_permissions(dir, Permissions::from_mode(DIR_MODE)));
    Ok(())
}

fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(path)?;
    // The mode in `open` applies only to a new file.
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_files_are_for_their_owner_only() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("usher");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.join(format!("{TIMELINE}{UNFINISHED}")), "").unwrap();
        save_text(&dir, TIMELINE, "{}").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(mode(&dir.join(TIMELINE)), 0o600);
    }

    #[test]
    fn every_saved_file_is_recognized_as_ours() {
        for name in OURS {
            assert!(is_ours(name) && is_ours(&format!("{name}{UNFINISHED}")));
            assert!(is_ours(&format!("{name}{UNREADABLE}")));
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

    #[test]
    fn file_that_could_not_be_read_is_kept_once() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path();
        for text in ["first", "second"] {
            save_text(dir, TIMELINE, text).unwrap();
            set_aside(dir, TIMELINE);
            assert_eq!(load_text(dir, TIMELINE).unwrap(), None);
            let aside = load_text(dir, &format!("{TIMELINE}{UNREADABLE}"));
            assert_eq!(aside.unwrap().as_deref(), Some(text));
        }
        fs::create_dir(dir.join(TIMELINE)).unwrap();
        set_aside(dir, TIMELINE);
        assert!(dir.join(TIMELINE).is_dir());
        assert_eq!(fs::read_dir(dir).unwrap().count(), 2);
    }
}
