//! The run directory and the plugin's log. Files with usher's names are removed. Others are kept and reported.

use std::{
    fs::{self, FileType},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

use usher_core::cleanup::{Found, Item};

use super::{is_in, unseen};
use crate::run_dir;

/// Limit of a run directory's entries.
const MOST: usize = 1024;
const NOT_OURS: &str = "usher did not create it";
const MOVE: &str = "check the file, and remove it yourself";

/// Finds the entries of the run directory, the directory itself, and the log if it is elsewhere.
pub(super) fn look(run_dir: &Path, log: &Path) -> Vec<Found> {
    let mut found = Vec::new();
    match fs::read_dir(run_dir) {
        Ok(entries) => {
            for entry in entries.take(MOST) {
                match entry.and_then(|entry| Ok((entry.path(), entry.file_type()?))) {
                    Ok((path, kind)) => found.push(of_entry(&path, kind)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => found.push(unseen(&run_dir.display().to_string(), &error)),
                }
            }
            if !is_mount(run_dir) {
                found.push(Found::removable(Item::Directory(run_dir.to_owned())));
            }
        }
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let item = Item::Foreign(run_dir.to_owned());
            found.push(Found::stuck(item, "it is not a directory", MOVE));
        }
        Err(error) => found.push(unseen(&run_dir.display().to_string(), &error)),
    }
    if !is_in(log, run_dir) {
        found.extend(elsewhere(log));
    }
    found
}

fn of_entry(path: &Path, kind: FileType) -> Found {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if run_dir::SOCKETS.contains(&name.as_ref()) && kind.is_socket() {
        return Found::removable(Item::Socket(path.to_owned()));
    }
    if run_dir::is_ours(&name) && kind.is_file() {
        return Found::removable(Item::File(path.to_owned()));
    }
    Found::stuck(Item::Foreign(path.to_owned()), NOT_OURS, MOVE)
}

/// The log, and the rotated log.
fn elsewhere(log: &Path) -> Vec<Found> {
    let mut aside = log.as_os_str().to_owned();
    aside.push(".1");
    let files = [log, Path::new(&aside)];
    let is_file = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|seen| seen.is_file());
    let found = files.into_iter().filter(is_file);
    found
        .map(|path| Found::removable(Item::File(path.to_owned())))
        .collect()
}

/// Whether a directory is a mount point. In the agent's container the run directory is a mount of the host's directory,
/// which the container can empty but not remove.
fn is_mount(directory: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|seen| seen.dev()).ok();
    let above = directory.parent().and_then(device);
    above.is_some() && device(directory) != above
}

/// Removes an empty directory.
pub(super) fn remove_directory(path: &Path) -> Result<(), String> {
    match fs::remove_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
        _ => Ok(()),
    }
}
