//! The steps of a change in the directory of network configurations.
//!
//! The directory is right for a reader after each of them, and so it is after a crash at any point. A reader here is
//! a runtime: it takes the first by name of the files with certain extensions, and never ours that are temporary.
//!
//! Somebody else may write the same file at the same moment. So a file is not replaced but exchanged with ours:
//! what it was is then looked at, and if that is not what our text was made of, it goes back to where it was.

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

/// Others may change a file several times while we give it back; nobody does it this often.
const MOST_EXCHANGES: usize = 16;
/// What a file's mode has beside its type.
const MODE: u32 = 0o7777;

/// One step, between two states that are both right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The text is in a temporary file, with mode and owner of another one, and lasts. Readers do not see it.
    Stage { text: String, like: String },
    /// The temporary file takes the place of a file, if that still is what it was. Readers see the one or the other.
    Replace { name: String, was: Vec<u8> },
    /// The temporary file gets a name that was free, or ours.
    Publish { name: String },
    /// A file goes, if it still is what it was.
    Withdraw { name: String, was: Vec<u8> },
    /// Names last.
    Sync,
}

/// A file gets another text.
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

/// A file gets another text, and a name that tells readers to read it in another way.
///
/// The new one comes before the old one goes, so for a moment there are both. Runtimes take the first by name, which
/// the caller sees to that it is the old one.
pub fn become_another(name: &str, was: &[u8], new: String, text: String) -> Vec<Step> {
    let stage = Step::Stage {
        text,
        like: name.to_owned(),
    };
    let mut steps = vec![stage, Step::Publish { name: new }, Step::Sync];
    steps.extend(withdraw(name, was));
    steps
}

/// A file goes.
pub fn withdraw(name: &str, was: &[u8]) -> Vec<Step> {
    let withdraw = Step::Withdraw {
        name: name.to_owned(),
        was: was.to_owned(),
    };
    vec![withdraw, Step::Sync]
}

/// Takes the steps one after the other, and leaves no temporary file behind where one fails.
pub fn run(dir: &Path, temporary: &str, steps: &[Step]) -> Result<(), Error> {
    for step in steps {
        if let Err(error) = step.run(dir, temporary) {
            // It holds nothing that anybody misses, and what matters is the first error.
            drop(files::remove(&dir.join(temporary)));
            return Err(error);
        }
    }
    Ok(())
}

impl Step {
    pub fn run(&self, dir: &Path, temporary: &str) -> Result<(), Error> {
        let temporary = dir.join(temporary);
        match self {
            Self::Stage { text, like } => stage(&temporary, text, &dir.join(like)),
            Self::Replace { name, was } => replace(&temporary, &dir.join(name), was),
            Self::Publish { name } => rename(&temporary, &dir.join(name)),
            Self::Withdraw { name, was } => take_away(&temporary, &dir.join(name), was),
            Self::Sync => files::sync(dir),
        }
    }
}

fn stage(temporary: &Path, text: &str, like: &Path) -> Result<(), Error> {
    files::remove(temporary)?;
    let like = match fs::metadata(like) {
        Ok(like) => like,
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => return Err(changed(like)),
        Err(source) => return Err(Error::io("looking at", like)(source)),
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
        .map_err(Error::io("looking at", temporary))?;
    // Not even asked for where it is so already: it is a right that few agents have.
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
    // What should be in the temporary file, and what is under the name, unless somebody else was faster.
    let mut displaced = Some(was.to_owned());
    let mut placed = ours.clone();
    for _ in 0..MOST_EXCHANGES {
        match exchange(temporary, path) {
            Ok(()) => {}
            // Removed by somebody else: that is the last word.
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
        // It goes back; then what we put there has to come out again.
        displaced = std::mem::replace(&mut placed, found);
    }
    Err(changed(path))
}

fn cannot_exchange(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    errno.is_some_and(|errno| matches!(errno, Errno::EINVAL | Errno::ENOSYS | Errno::EPERM))
}

fn take_away(temporary: &Path, path: &Path, was: &[u8]) -> Result<(), Error> {
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
    // It goes back, unless there is a newer one already.
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
