//! One file of an archive that somebody sent. Entries that say something about the next one (the long names of GNU's
//! tar, pax headers) are read here and not by the crate, which takes as much of them as there is.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use flate2::read::GzDecoder;
use tar::{Archive, Entry, PaxExtensions};

/// What is unpacked of an archive at most, to find a file in it.
const LARGEST: u64 = 4 * 1024 * 1024 * 1024;
/// What is read of an entry about the next one: longer paths than this has no system, and its times, owners and
/// attributes have room beside it.
const LONGEST_ABOUT: u64 = 64 * 1024;
/// A path that is longer is none.
const LONGEST_PATH: usize = 4096;
/// The key of a path in a pax header.
const PATH: &[u8] = b"path";

/// The content of this file, of which no more than so much is read; None where there is none.
pub(super) fn read(archive: &Path, path: &str, largest: u64) -> io::Result<Option<Vec<u8>>> {
    let packed = GzDecoder::new(fs::File::open(archive)?);
    find(packed.take(LARGEST), path, largest)
}

fn find(unpacked: impl Read, path: &str, largest: u64) -> io::Result<Option<Vec<u8>>> {
    let mut archive = Archive::new(unpacked);
    let mut long = None;
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        if kind.is_gnu_longname() {
            long = Some(name(&mut entry)?);
        } else if kind.is_pax_local_extensions() {
            long = pax_path(&mut entry)?.or(long);
        } else if kind.is_gnu_longlink() || kind.is_pax_global_extensions() {
            // Nothing that counts.
        } else {
            let own = entry.path_bytes();
            let is_it = long.take().as_deref().unwrap_or(&own) == path.as_bytes();
            if is_it && kind.is_file() {
                return super::bounded(entry, largest).map(Some);
            }
        }
    }
    Ok(None)
}

/// A name as GNU's tar writes it, with a zero behind it.
fn name(entry: &mut Entry<'_, impl Read>) -> io::Result<Vec<u8>> {
    let mut name = about(entry)?;
    if name.last() == Some(&0) {
        name.pop();
    }
    short(name)
}

fn pax_path(entry: &mut Entry<'_, impl Read>) -> io::Result<Option<Vec<u8>>> {
    let text = about(entry)?;
    let mut path = None;
    // Values of other keys may be of a form that the crate does not know.
    for extension in PaxExtensions::new(&text).flatten() {
        if extension.key_bytes() == PATH {
            path = Some(short(extension.value_bytes().to_vec())?);
        }
    }
    Ok(path)
}

fn about(entry: &mut Entry<'_, impl Read>) -> io::Result<Vec<u8>> {
    super::bounded(entry, LONGEST_ABOUT)
}

fn short(path: Vec<u8>) -> io::Result<Vec<u8>> {
    if path.len() > LONGEST_PATH {
        return Err(io::Error::other("a path in it is longer than 4096 bytes"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
