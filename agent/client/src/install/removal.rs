//! The way off the host: what is there, and how each of it goes.
//!
//! Runtimes call what the configuration names for the end of a pod as well, so a binary that goes too early leaves
//! pods that cannot end. In which order all goes is in [`usher_core::cleanup`].

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

/// Others may write at the same moment; nobody does so this often.
const MOST_ATTEMPTS: usize = 16;
/// Where a configuration cannot be read, and names the plugin.
const REPAIR: &str = "repair the file, or take the object of type \"usher-cni\" out of it by hand";

/// What is in a directory of network configurations.
///
/// # Errors
/// When the directory or a file in it cannot be read.
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

/// Takes the entry out of one file, whatever others write meanwhile.
///
/// # Errors
/// When it is still there.
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

/// The plugin, and what was left half written, in a directory of plugins.
///
/// # Errors
/// When the directory cannot be read.
pub fn binary(dir: &Path) -> Result<Option<Thing>, Error> {
    let path = dir.join(PLUGIN);
    let is_there = files::is_there(&path)?;
    Ok(is_there.then_some(Thing::Binary(path)))
}

/// What agents left in a directory that ended in the middle of a write.
///
/// # Errors
/// When the directory cannot be read.
pub fn temporaries(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    files::temporaries(dir)
}

/// Removes a file that may be gone already.
///
/// # Errors
/// When it is still there.
pub fn remove_file(path: &Path) -> Result<(), Error> {
    files::remove(path)
}

/// Whether any file has the entry, or a text that may be one.
pub fn has_entries(dir: &Path) -> Result<bool, Error> {
    let files = files::list(dir)?;
    Ok(entry::require_gone(dir, &files).is_err())
}

/// Takes the entry out of all files, and returns their names.
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
