//! The plugin's binary on the host.
//!
//! A runtime may execute the binary at any moment, so it is never written in place: a complete copy with another name
//! replaces it. A process that runs the old binary is not affected.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use super::{error::Error, files};

/// Limit. usher's plugin is smaller.
const LONGEST: u64 = 64 * 1024 * 1024;
const MODE: u32 = 0o755;
const CHUNK: usize = 64 * 1024;

type Stamp = [i128; 4];

#[derive(Debug)]
pub struct Binary {
    source: PathBuf,
    place: PathBuf,
    /// Stamps of both files at the last comparison that found them equal. Unchanged files are not read again.
    same: Option<(Stamp, Stamp)>,
}

impl Binary {
    pub const fn new(source: PathBuf, place: PathBuf) -> Self {
        Self {
            source,
            place,
            same: None,
        }
    }

    /// Whether any binary is installed.
    pub fn exists(&self) -> bool {
        self.place.exists()
    }

    /// Whether the installed binary has the bytes of the source, and is executable.
    pub fn is_current(&mut self) -> Result<bool, Error> {
        let stamps = (files::stamp(&self.source)?, files::stamp(&self.place)?);
        let (Some(source), Some(place)) = stamps else {
            return Ok(false);
        };
        if self.same == Some((source, place)) {
            return Ok(true);
        }
        self.same = None;
        let Some(installed) = files::open(&self.place)? else {
            return Ok(false);
        };
        let metadata = installed
            .metadata()
            .map_err(Error::io("reading the metadata of", &self.place))?;
        let is_current = metadata.mode() & MODE == MODE
            && same(&self.bounded()?, &installed).map_err(Error::io("reading", &self.place))?;
        if is_current {
            self.same = Some((source, place));
        }
        Ok(is_current)
    }

    /// Copies the source to its place, through a temporary file of this name.
    ///
    /// # Errors
    /// When the copy fails. The old binary stays.
    pub fn install(&self, temporary: &str) -> Result<(), Error> {
        let dir = self.place.parent().unwrap_or(Path::new("."));
        let temporary = dir.join(temporary);
        let installed = self.copy(&temporary).and_then(|()| {
            fs::rename(&temporary, &self.place).map_err(Error::io("replacing", &self.place))?;
            files::sync(dir)
        });
        if installed.is_err() {
            // The first error is the cause.
            drop(files::remove(&temporary));
        }
        installed
    }

    fn copy(&self, temporary: &Path) -> Result<(), Error> {
        let mut source = self.bounded()?;
        let mut options = OpenOptions::new();
        let created = options
            .write(true)
            .create_new(true)
            .mode(MODE)
            .open(temporary);
        let mut file = created.map_err(Error::io("creating", temporary))?;
        io::copy(&mut source, &mut file).map_err(Error::io("writing", temporary))?;
        file.set_permissions(fs::Permissions::from_mode(MODE))
            .map_err(Error::io("changing the mode of", temporary))?;
        file.sync_all().map_err(Error::io("syncing", temporary))
    }

    fn bounded(&self) -> Result<File, Error> {
        let not_a_file = || Error::NotAFile {
            path: self.source.clone(),
            longest: LONGEST,
        };
        let file = files::open(&self.source)?.ok_or_else(not_a_file)?;
        let metadata = file
            .metadata()
            .map_err(Error::io("reading the metadata of", &self.source))?;
        if metadata.size() > LONGEST {
            return Err(not_a_file());
        }
        Ok(file)
    }
}

fn same(mut one: &File, mut other: &File) -> io::Result<bool> {
    if one.metadata()?.size() != other.metadata()?.size() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let length = one.read(&mut left)?;
        if length == 0 {
            return Ok(true);
        }
        match other.read_exact(&mut right[..length]) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
        if left[..length] != right[..length] {
            return Ok(false);
        }
    }
}
