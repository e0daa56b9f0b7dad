//! Finds and removes the plugin's entries, binary and temporary files.
//!
//! Runtimes also call the plugin when a pod ends. If the binary were removed before the entry, pods could not end.
//! [`usher_core::cleanup`] defines the order.

use std::path::{Path, PathBuf};

use usher_core::{
    cleanup::{Found, Thing},
    cni::conflist::{self, Edit},
};

use super::{
    entry,
    error::Error,
    files::{self, Conf},
    settings::PLUGIN,
    step,
};
use crate::error_chain::chain;

/// Limit of attempts while another process writes at the same time.
const MOST_ATTEMPTS: usize = 16;
/// The advice for an invalid configuration that contains the plugin's name.
const REPAIR: &str = "repair the file, or delete the object of type \"usher-cni\" in it";

/// The entries in a directory of network configurations.
pub fn entries(dir: &Path) -> Result<Vec<Found>, Error> {
    let files = files::list(dir)?;
    let entry = |file: &Conf| {
        let thing = Thing::Entry(dir.join(&file.name));
        match conflist::remove(&file.text(), PLUGIN) {
            Ok(Edit::Unchanged) => None,
            Ok(_) => Some(match file.exact(dir) {
                Ok(_) => Found::removable(thing),
                Err(error) => Found::stuck(thing, chain(&error), REPAIR),
            }),
            Err(error) if file.text().contains(PLUGIN) => {
                Some(Found::stuck(thing, chain(&error), REPAIR))
            }
            Err(_not_ours) => None,
        }
    };
    Ok(files.iter().filter_map(entry).collect())
}

/// Removes the entry from one file. Retries while other processes write it.
pub fn remove_entry(path: &Path) -> Result<(), Error> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let is_it = |file: &Conf| path.file_name().is_some_and(|name| name == &file.name[..]);
    for _ in 0..MOST_ATTEMPTS {
        let mut files = files::list(dir)?;
        files.retain(is_it);
        let Some((_name, steps)) = entry::removal(&files).pop() else {
            return entry::require_gone(dir, &files);
        };
        match step::run(dir, &files::temporary(), &steps) {
            Ok(()) | Err(Error::Changed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Changed {
        path: path.to_owned(),
    })
}

/// The plugin's binary in a directory of plugins.
pub fn binary(dir: &Path) -> Result<Option<Thing>, Error> {
    let path = dir.join(PLUGIN);
    let is_there = files::is_there(&path)?;
    Ok(is_there.then_some(Thing::Binary(path)))
}

/// Temporary files in a directory.
pub fn temporaries(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    files::temporaries(dir)
}

/// Removes a file. Succeeds if the file is absent.
pub fn remove_file(path: &Path) -> Result<(), Error> {
    files::remove(path)
}

/// Whether a file has the entry, or is invalid and contains the plugin's name.
pub fn has_entries(dir: &Path) -> Result<bool, Error> {
    let files = files::list(dir)?;
    Ok(entry::require_gone(dir, &files).is_err())
}

/// Removes the entry from all files, and returns their names.
pub fn remove_entries(dir: &Path, temporary: &str) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for _ in 0..MOST_ATTEMPTS {
        let files = files::list(dir)?;
        let changes = entry::removal(&files);
        if changes.is_empty() {
            entry::require_gone(dir, &files)?;
            break;
        }
        for (name, steps) in changes {
            match step::run(dir, temporary, &steps) {
                Ok(()) => names.push(name),
                Err(Error::Changed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(names)
}
