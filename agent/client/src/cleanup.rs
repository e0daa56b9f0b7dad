//! Removes everything that usher has on a node, with and without an agent. [`usher_core::cleanup`] defines the order
//! and the dependencies.
//!
//! A failed removal is reported, and the others continue.

mod run_files;
pub mod tables;

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use usher_core::{
    base::id::{NetnsId, Pid},
    cleanup::{Cleaning, Found, Item, Report, Step},
};
use usher_sys::{net::netns::Netns, pods::proc::ProcRoot, seqpacket};

use crate::{
    error_chain::chain,
    install::{entry, error::Error, files, removal},
    run_dir,
};

/// How long the runtime may still call the plugin for pods that are starting or ending.
pub const RUNTIME_CALLS: Duration = Duration::from_secs(5);
/// The advice if a place cannot be read.
const LOOK: &str = "run this as root on the node itself";
/// Why a binary stays if the entries cannot be listed.
const UNSEEN_ENTRY: &str = "an entry that cannot be seen may name it";

/// Places where usher may have installed files.
#[derive(Debug, Clone)]
pub struct Places {
    pub conf_dirs: Vec<PathBuf>,
    pub bin_dirs: Vec<PathBuf>,
    pub run_dir: PathBuf,
    /// Path of the plugin's log, which may be outside the run directory.
    pub log: PathBuf,
    pub proc: ProcRoot,
    /// Delay between the removals of the entry and of the binary.
    pub grace_period: Duration,
}

/// Whether an agent runs on this node, which would install everything again.
pub fn agent_lives(places: &Places) -> Result<bool, seqpacket::Error> {
    seqpacket::is_listening(&places.run_dir.join(run_dir::CNI_SOCKET))
}

/// Finds everything that usher has on the node.
pub fn look(places: &Places) -> Vec<Found> {
    let mut found = Vec::new();
    let mut may_be_named = false;
    for dir in &places.conf_dirs {
        match removal::entries(dir) {
            Ok(entries) => found.extend(entries),
            Err(error) => {
                may_be_named = true;
                found.push(unseen(&format!("entries in {}", dir.display()), &error));
            }
        }
    }
    let found_binary = |binary| match may_be_named {
        true => Found::stuck(binary, UNSEEN_ENTRY, LOOK),
        false => Found::removable(binary),
    };
    for dir in &places.bin_dirs {
        match removal::binary(dir) {
            Ok(binary) => found.extend(binary.map(found_binary)),
            Err(error) => found.push(unseen(&format!("the plugin in {}", dir.display()), &error)),
        }
    }
    for dir in places.conf_dirs.iter().chain(&places.bin_dirs) {
        match files::temporaries(dir) {
            Ok(paths) => {
                let temporaries = paths.into_iter().map(Item::Temporary);
                found.extend(temporaries.map(Found::removable));
            }
            Err(error) => found.push(unseen(
                &format!("temporary files in {}", dir.display()),
                &error,
            )),
        }
    }
    found.extend(tables::look(&places.proc));
    found.extend(run_files::look(&places.run_dir, &places.log));
    found
}

/// Removes everything that can be removed. Then looks again, and reports what remains.
pub fn clean(places: &Places) -> Report {
    let mut cleaning = Cleaning::new(look(places));
    while let Some(step) = cleaning.step() {
        match step {
            Step::WaitForRuntime => thread::sleep(places.grace_period),
            Step::Remove(item) => cleaning.done(remove(&item, places)),
        }
    }
    let mut report = cleaning.report();
    report.found_again(look(places));
    report
}

fn remove(item: &Item, places: &Places) -> Result<(), String> {
    match item {
        Item::Entry(path) => removal::remove_entry(path).map_err(|error| chain(&error)),
        Item::Binary(path) => require_unnamed(places)
            .and_then(|()| files::remove(path))
            .map_err(|error| chain(&error)),
        Item::Temporary(path) | Item::Socket(path) | Item::File(path) => {
            files::remove(path).map_err(|error| chain(&error))
        }
        Item::Table { netns, pid, .. } => tables::remove(&places.proc, *netns, *pid),
        Item::Directory(path) => run_files::remove_directory(path),
        // The plan contains no step for these.
        Item::Unreadable(_) | Item::Foreign(_) => Err("it is not usher's to remove".to_owned()),
    }
}

/// Checks that no file names the plugin. After the removal of the entry, another installer may have written an older text
/// of the file that has the entry.
fn require_unnamed(places: &Places) -> Result<(), Error> {
    let mut dirs = places.conf_dirs.iter();
    dirs.try_for_each(|dir| entry::require_gone(dir, &files::list(dir)?))
}

fn unseen(what: &str, error: &dyn std::error::Error) -> Found {
    Found::stuck(Item::Unreadable(what.to_owned()), chain(error), LOOK)
}

/// The host's own network namespace; None if it is not known.
pub fn of_host(proc: &ProcRoot) -> Option<NetnsId> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    // Some machines hide pid 1 even from root. This process is on the host, or shares its network.
    let first = Netns::of_process(proc, Pid(1));
    let found = first.or_else(|_hidden| Netns::of_process(proc, Pid(own)));
    found.ok().map(|netns| netns.id())
}

fn is_in(path: &Path, directory: &Path) -> bool {
    path.parent() == Some(directory)
}

#[cfg(test)]
mod tests;
