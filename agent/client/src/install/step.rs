//! The steps of a change to the directory of network configurations.
//!
//! The directory is valid for readers after each step, and so after a crash at any point. A reader is a runtime: it
//! reads the first file by name with one of several extensions, and no temporary file of usher.
//!
//! Another process may write the same file at the same time. So a step exchanges the file with usher's instead of
//! replacing it. If the displaced file is not the one that usher edited, the step exchanges them back.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::Path,
};

use nix::errno::Errno;
use usher_core::cni::conflist::MAX_LENGTH;
use usher_sys::files::exchange::exchange;

use super::{error::Error, files};

/// Limit of exchanges while another process keeps changing the file.
const MOST_EXCHANGES: usize = 16;
/// The bits of a file's mode, without those of its type.
const MODE: u32 = 0o7777;

/// One step, between two valid states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write the text to a temporary file, with mode and owner of the file `like`, and sync it. Readers skip the file.
    Stage { text: String, like: String },
    /// Replace a file by the temporary one, if the file still has the bytes `was`. Readers find one or the other.
    Replace { name: String, was: Vec<u8> },
    /// Rename the temporary file to a name that is unused or belongs to usher.
    Publish { name: String },
    /// Remove a file, if it still has the bytes `was`.
    Withdraw { name: String, was: Vec<u8> },
    /// Sync the directory's names.
    Sync,
}

/// The steps that change a file's text.
pub fn rewrite(name: &str, was: &[u8], text: String) -> Vec<Step> {
    let stage = Step::Stage {
        text,
        like: name.to_owned(),
    };
    let replace = Step::Replace {
        name: name.to_owned(),
        was: was.to_owned(),
    };
    vec![stage, replace, Step::Sync]
}

/// The steps that change a file's text and name, because readers determine the format by the extension.
///
/// The new file is published before the old one is removed, so both exist for a moment. Runtimes read the first by
/// name, so the caller chooses a name that sorts after the old one.
pub fn become_another(name: &str, was: &[u8], new: String, text: String) -> Vec<Step> {
    let stage = Step::Stage {
        text,
        like: name.to_owned(),
    };
    let mut steps = vec![stage, Step::Publish { name: new }, Step::Sync];
    steps.extend(withdraw(name, was));
    steps
}

/// The steps that remove a file.
pub fn withdraw(name: &str, was: &[u8]) -> Vec<Step> {
    let withdraw = Step::Withdraw {
        name: name.to_owned(),
        was: was.to_owned(),
    };
    vec![withdraw, Step::Sync]
}

/// Removes the temporary file if a step fails.
///
/// # Errors
/// The error of the first step that fails: [`Error::Changed`] if another process changed the file.
pub fn run(dir: &Path, temporary: &str, steps: &[Step]) -> Result<(), Error> {
    for step in steps {
        if let Err(error) = step.run(dir, temporary) {
            // The first error is the cause, and the temporary file is useless.
            drop(files::remove(&dir.join(temporary)));
            return Err(error);
        }
    }
    Ok(())
}

impl Step {
    /// Runs one step.
    ///
    /// # Errors
    /// If the step fails: [`Error::Changed`] if another process changed the file.
    pub fn run(&self, dir: &Path, temporary: &str) -> Result<(), Error> {
        let temporary = dir.join(temporary);
        match self {
            Self::Stage { text, like } => stage(&temporary, text, &dir.join(like)),
            Self::Replace { name, was } => replace(&temporary, &dir.join(name), was),
            Self::Publish { name } => rename(&temporary, &dir.join(name)),
            Self::Withdraw { name, was } => remove(&temporary, &dir.join(name), was),
            Self::Sync => files::sync(dir),
        }
    }
}

fn stage(temporary: &Path, text: &str, like: &Path) -> Result<(), Error> {
    files::remove(temporary)?;
    let like = match fs::metadata(like) {
        Ok(like) => like,
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => return Err(changed(like)),
        Err(source) => return Err(Error::io("reading the metadata of", like)(source)),
    };
    let mut options = OpenOptions::new();
    let created = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(temporary);
    let mut file = created.map_err(Error::io("creating", temporary))?;
    file.write_all(text.as_bytes())
        .map_err(Error::io("writing", temporary))?;
    let own = file
        .metadata()
        .map_err(Error::io("reading the metadata of", temporary))?;
    // Only if the owner differs, because few agents have the capability.
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        fchown(&file, Some(like.uid()), Some(like.gid()))
            .map_err(Error::io("changing the owner of", temporary))?;
    }
    let mode = fs::Permissions::from_mode(like.mode() & MODE);
    file.set_permissions(mode)
        .map_err(Error::io("changing the mode of", temporary))?;
    file.sync_all().map_err(Error::io("syncing", temporary))
}

fn replace(temporary: &Path, path: &Path, was: &[u8]) -> Result<(), Error> {
    let ours = content(temporary)?;
    if content(path)? != Some(was.to_owned()) {
        return Err(changed(path));
    }
    // The contents of the temporary file and of the path after an exchange without interference.
    let mut displaced = Some(was.to_owned());
    let mut placed = ours.clone();
    for _ in 0..MOST_EXCHANGES {
        match exchange(temporary, path) {
            Ok(()) => {}
            // Another process removed the file, and its removal has priority.
            Err(absent) if absent.kind() == io::ErrorKind::NotFound => return Err(changed(path)),
            Err(error) if cannot_exchange(&error) => return rename(temporary, path),
            Err(source) => return Err(Error::io("replacing", path)(source)),
        }
        let found = content(temporary)?;
        if found == displaced {
            files::remove(temporary)?;
            let is_done = placed == ours;
            return is_done.then_some(()).ok_or_else(|| changed(path));
        }
        // Exchange back. Then the file that this exchange placed must be displaced.
        displaced = std::mem::replace(&mut placed, found);
    }
    Err(changed(path))
}

fn cannot_exchange(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    errno.is_some_and(|errno| matches!(errno, Errno::EINVAL | Errno::ENOSYS | Errno::EPERM))
}

fn remove(temporary: &Path, path: &Path, was: &[u8]) -> Result<(), Error> {
    match content(path)? {
        None => return Ok(()),
        Some(found) if found != was => return Err(changed(path)),
        Some(_) => {}
    }
    match fs::rename(path, temporary) {
        Ok(()) => {}
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Error::io("removing", path)(source)),
    }
    if content(temporary)?.as_deref() == Some(was) {
        return files::remove(temporary);
    }
    // Restore the file, unless a newer one exists.
    match fs::hard_link(temporary, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            rename(temporary, path)?;
        }
        _ => files::remove(temporary)?,
    }
    Err(changed(path))
}

fn content(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    files::read(path, MAX_LENGTH + 1)
}

fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(Error::io("replacing", to))
}

fn changed(path: &Path) -> Error {
    Error::Changed {
        path: path.to_owned(),
    }
}
