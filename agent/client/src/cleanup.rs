//! Takes everything of usher off a node, with and without an agent: what is there, and how each of it goes. In which
//! order, and what stays because of what, is in [`usher_core::cleanup`].
//!
//! What can go wrong with one thing is told, and the others go all the same.

mod run_files;
mod tables;

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use usher_core::{
    base::id::Pid,
    cleanup::{Cleaning, Found, Report, Step, Thing},
};
use usher_sys::{net::netns::Netns, pods::proc::ProcRoot, seqpacket};

use crate::{error_chain::chain, install::removal, run_dir};

/// How long pods that are being started or ended may call the plugin yet.
pub const LINGER: Duration = Duration::from_secs(5);
/// What a person can do where a place cannot be looked at.
const LOOK: &str = "run this as root on the node itself";

/// Where things of usher may be.
#[derive(Debug, Clone)]
pub struct Places {
    /// Network configurations.
    pub conf_dirs: Vec<PathBuf>,
    /// CNI plugins.
    pub bin_dirs: Vec<PathBuf>,
    pub run_dir: PathBuf,
    /// The plugin's log, where it is not in the run directory.
    pub log: PathBuf,
    pub proc: ProcRoot,
    /// Between the end of an entry and that of the binary.
    pub linger: Duration,
}

/// Whether an agent runs here, which would put everything back.
///
/// # Errors
/// When that cannot be told.
pub fn agent_lives(places: &Places) -> Result<bool, seqpacket::Error> {
    seqpacket::is_listening(&places.run_dir.join(run_dir::CNI_SOCKET))
}

/// Everything that is there.
pub fn look(places: &Places) -> Vec<Found> {
    let mut found = Vec::new();
    for dir in &places.conf_dirs {
        match removal::entries(dir) {
            Ok(entries) => found.extend(entries),
            Err(error) => found.push(unseen(&format!("entries in {}", dir.display()), &error)),
        }
    }
    for dir in &places.bin_dirs {
        match removal::binary(dir) {
            Ok(binary) => found.extend(binary.map(Found::removable)),
            Err(error) => found.push(unseen(&format!("the plugin in {}", dir.display()), &error)),
        }
    }
    for dir in places.conf_dirs.iter().chain(&places.bin_dirs) {
        match removal::temporaries(dir) {
            Ok(paths) => {
                let temporaries = paths.into_iter().map(Thing::Temporary);
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

/// Removes everything that can be removed, and looks once more.
pub fn clean(places: &Places) -> Report {
    let mut cleaning = Cleaning::new(look(places));
    while let Some(step) = cleaning.step() {
        match step {
            Step::Linger => thread::sleep(places.linger),
            Step::Remove(thing) => cleaning.done(remove(&thing, places)),
        }
    }
    let mut report = cleaning.report();
    report.found_again(look(places));
    report
}

fn remove(thing: &Thing, places: &Places) -> Result<(), String> {
    match thing {
        Thing::Entry(path) => removal::remove_entry(path).map_err(|error| chain(&error)),
        Thing::Binary(path) | Thing::Temporary(path) | Thing::Socket(path) | Thing::File(path) => {
            removal::remove_file(path).map_err(|error| chain(&error))
        }
        Thing::Table { netns, pid, .. } => tables::remove(&places.proc, *netns, *pid),
        Thing::Directory(path) => run_files::remove_directory(path),
        // Never asked for.
        Thing::Unseen(_) | Thing::Foreign(_) => Err("it is not usher's to remove".to_owned()),
    }
}

fn unseen(what: &str, error: &dyn std::error::Error) -> Found {
    Found::stuck(Thing::Unseen(what.to_owned()), chain(error), LOOK)
}

/// The network namespaces that are the host's own, where usher has no table.
fn of_host(proc: &ProcRoot) -> Vec<usher_core::base::id::NetnsId> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    // Some machines hide their first process even from root; what runs this is on the host, or shares its network.
    let first = Netns::of_process(proc, Pid(1));
    let found = first.or_else(|_hidden| Netns::of_process(proc, Pid(own)));
    found.iter().map(Netns::id).collect()
}

/// Whether a path is right in a directory.
fn is_in(path: &Path, directory: &Path) -> bool {
    path.parent() == Some(directory)
}

#[cfg(test)]
mod tests;
