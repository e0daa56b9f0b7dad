//! The way off the host: the entry, then the binary.
//!
//! Runtimes call what the configuration names for the end of a pod as well, so a binary that goes too early leaves
//! pods that cannot end. A call that has begun goes on with the list that it began with; it is given some time.

use std::{path::Path, thread};

use anyhow::Context;

use super::{entry, error::Error, files, settings::Settings, step};
use crate::args::cni::CniArgs;

/// Others may write at the same moment; nobody does so this often.
const MOST_ATTEMPTS: usize = 16;

/// Takes the plugin off the host and says what was done, in the log. An agent that still runs there and wants the
/// plugin would put it back: that one has to go first, or the Node has to say that it does not want it.
///
/// # Errors
/// When something of it is left. The binary stays while any configuration names it.
pub(crate) fn uninstall(args: &CniArgs) -> anyhow::Result<()> {
    let settings = Settings::of(args).context("where the CNI plugin is")?;
    let settings = settings.context("--cni-uninstall needs --cni-conf-dir and --cni-bin-dir")?;
    let conf_dir = &settings.conf_dir;
    let names = remove_entries(conf_dir, &files::temporary())?;
    for file in &names {
        tracing::info!(file, "removed the CNI plugin's entry");
    }
    if !names.is_empty() {
        thread::sleep(args.cni_linger);
    }
    // Somebody may have put it back meanwhile.
    entry::require_gone(conf_dir, &files::list(conf_dir)?)?;
    let binary = settings.binary();
    if binary.exists() {
        files::remove(&binary)?;
        tracing::info!(path = %binary.display(), "removed the CNI plugin's binary");
    }
    files::sweep(conf_dir)?;
    files::sweep(&settings.bin_dir)?;
    tracing::info!("nothing of the CNI plugin is left");
    Ok(())
}

/// Whether any file has the entry, or a text that may be one.
pub(super) fn has_entries(dir: &Path) -> Result<bool, Error> {
    let files = files::list(dir)?;
    Ok(entry::require_gone(dir, &files).is_err())
}

/// Takes the entry out of all files, and returns their names.
pub(super) fn remove_entries(dir: &Path, temporary: &str) -> Result<Vec<String>, Error> {
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
