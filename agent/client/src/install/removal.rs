//! Finds and removes the plugin's entries, binary and temporary files.
//!
//! Runtimes also call the plugin when a pod ends. If the binary were removed before the entry, pods could not end.
//! [`usher_core::cleanup`] defines the order.

use std::path::Path;

use usher_core::cleanup::{Found, Item};

use super::{
    entry::{self, Mention},
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
/// Why a configuration of Multus stays, and the advice.
const NESTED: &str = "another plugin's configuration contains the plugin";
const REWRITE: &str = "restart Multus so that it writes the file again, or delete the object of type \"usher-cni\" in it; \
                       then repeat this";

/// The entries in a directory of network configurations.
pub fn entries(dir: &Path) -> Result<Vec<Found>, Error> {
    let files = files::list(dir)?;
    let entry = |file: &Conf| {
        let item = Item::Entry(dir.join(&file.name));
        Some(match entry::mention(file)? {
            Mention::Entry => match file.exact(dir) {
                Ok(_) => Found::removable(item),
                Err(error) => Found::stuck(item, chain(&error), REPAIR),
            },
            Mention::Nested => Found::stuck(item, NESTED, REWRITE),
            Mention::Invalid(error) => Found::stuck(item, chain(&error), REPAIR),
        })
    };
    Ok(files.iter().filter_map(entry).collect())
}

/// Retries while other processes write the file.
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
pub fn binary(dir: &Path) -> Result<Option<Item>, Error> {
    let path = dir.join(PLUGIN);
    let is_there = files::is_there(&path)?;
    Ok(is_there.then_some(Item::Binary(path)))
}

/// Whether a file has the entry, or is invalid and contains the plugin's name.
pub fn has_entries(dir: &Path) -> Result<bool, Error> {
    Ok(files::list(dir)?.iter().any(entry::may_have_entry))
}

/// The files in which another plugin's configuration contains the plugin.
pub fn nested(dir: &Path) -> Result<Vec<String>, Error> {
    let mut files = files::list(dir)?;
    files.retain(|file| matches!(entry::mention(file), Some(Mention::Nested)));
    Ok(files.into_iter().map(|file| file.name).collect())
}

/// Removes the entry from all files, and returns their names. Copies in other plugins' configurations stay.
pub fn remove_entries(dir: &Path, temporary: &str) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for _ in 0..MOST_ATTEMPTS {
        let files = files::list(dir)?;
        let changes = entry::removal(&files);
        if changes.is_empty() {
            entry::require_no_entry(dir, &files)?;
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
