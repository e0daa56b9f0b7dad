//! Bounded reading of the host's directories, and names of temporary files.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use nix::fcntl::OFlag;
use usher_core::cni::conflist::MAX_LENGTH;

use super::error::Error;
use crate::wall_clock;

/// The extensions that runtimes read
/// ([go-cni](https://github.com/containerd/go-cni/blob/v1.1.13/opts.go)). A temporary file must have none of them.
const EXTENSIONS: [&str; 3] = ["conf", "conflist", "json"];
/// Limit. A node has fewer network configurations.
const MOST_FILES: usize = 64;
/// Prefix and suffix of usher's temporary files.
const TEMPORARY: (&str, &str) = (".usher-cni.", ".tmp");

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A network configuration with the bytes that were read.
#[derive(Debug, Clone)]
pub struct Conf {
    pub name: String,
    pub bytes: Vec<u8>,
}

impl Conf {
    /// The text for choosing a file. Go's parser accepts bytes that are not UTF-8, so they must not hide a file.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// The text for an edit, which must keep every byte.
    ///
    /// # Errors
    /// [`Error::NotText`] if the file is not UTF-8.
    pub fn exact(&self, dir: &Path) -> Result<&str, Error> {
        let not_text = |_not_utf8| Error::NotText {
            path: dir.join(&self.name),
        };
        std::str::from_utf8(&self.bytes).map_err(not_text)
    }
}

/// The network configurations of a directory, in no order. Empty if the directory does not exist. Without the links of
/// [`hidden_links`].
pub fn list(dir: &Path) -> Result<Vec<Conf>, Error> {
    let mut files = Vec::new();
    for name in names(dir)? {
        // An additional byte proves that the file is too long.
        let Some(bytes) = read(&dir.join(&name), MAX_LENGTH + 1)? else {
            continue;
        };
        if files.len() == MOST_FILES {
            return Err(Error::TooMany {
                dir: dir.to_owned(),
                most: MOST_FILES,
            });
        }
        files.push(Conf { name, bytes });
    }
    Ok(files)
}

/// The network configurations that are symbolic links to paths that do not exist here, in no order. In a container, such
/// a path may exist on the host, where the runtime follows the link.
pub fn hidden_links(dir: &Path) -> Result<Vec<String>, Error> {
    let mut names = names(dir)?;
    names.retain(|name| {
        let path = dir.join(name);
        path.is_symlink() && fs::metadata(&path).is_err()
    });
    Ok(names)
}

/// The names that runtimes read. Skips names that are not UTF-8: no administrator chooses one.
fn names(dir: &Path) -> Result<Vec<String>, Error> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::io("listing", dir)(source)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io("listing", dir))?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) {
            names.push(name);
        }
    }
    Ok(names)
}

/// The first bytes of a file. None if the path is absent, as the target of a link may be, or not a file.
pub fn read(path: &Path, longest: usize) -> Result<Option<Vec<u8>>, Error> {
    let Some(file) = open(path)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.take(longest as u64)
        .read_to_end(&mut bytes)
        .map_err(Error::io("reading", path))?;
    Ok(Some(bytes))
}

/// Opens a regular file. None for a pipe or a device, which could block.
pub fn open(path: &Path) -> Result<Option<File>, Error> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::io("opening", path)(source)),
    };
    let metadata = file
        .metadata()
        .map_err(Error::io("reading the metadata of", path))?;
    Ok(metadata.is_file().then_some(file))
}

/// A unique name for a temporary file.
pub fn temporary() -> String {
    let (prefix, suffix) = TEMPORARY;
    // With the time, because in containers many processes have the same pid.
    let time = wall_clock::since_epoch().as_nanos();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{}-{time:x}-{count}{suffix}", std::process::id())
}

/// Temporary files of agents that ended during a write.
pub fn temporaries(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let (prefix, suffix) = TEMPORARY;
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::io("listing", dir)(source)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::io("listing", dir))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(prefix) && name.ends_with(suffix)) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Removes the temporary files.
pub fn sweep(dir: &Path) -> Result<(), Error> {
    temporaries(dir)?.iter().try_for_each(|path| remove(path))
}

/// Whether the path exists, even as a dangling link.
pub fn is_there(path: &Path) -> Result<bool, Error> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::io("reading the metadata of", path)(source)),
    }
}

/// Succeeds if the file is absent.
pub fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("removing", path)(error))
        }
        _ => Ok(()),
    }
}

/// Syncs the names in a directory to disk.
pub fn sync(dir: &Path) -> Result<(), Error> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(Error::io("syncing", dir))
}

/// Identifies a version of a file: device, inode, size, and time of the last change in nanoseconds.
pub fn stamp(path: &Path) -> Result<Option<[i128; 4]>, Error> {
    match fs::metadata(path) {
        Ok(found) => {
            let changed =
                i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec());
            Ok(Some([
                i128::from(found.dev()),
                i128::from(found.ino()),
                i128::from(found.size()),
                changed,
            ]))
        }
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::io("reading the metadata of", path)(source)),
    }
}
