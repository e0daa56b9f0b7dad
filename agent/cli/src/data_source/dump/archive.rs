//! Reads one file of an untrusted archive. Entries that describe the next one (GNU long names, pax headers) are read here and
//! not by the crate, which does not limit them.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use flate2::read::GzDecoder;
use tar::{Archive, Entry, PaxExtensions};

const MAX_UNPACKED: u64 = 4 * 1024 * 1024 * 1024;
/// Limit of an entry that describes the next one: enough for a path, times, owners and attributes.
const MAX_EXTENSION: u64 = 64 * 1024;
/// Limit of a path, as on Linux.
const MAX_PATH: usize = 4096;
/// The key of a path in a pax header.
const PATH: &[u8] = b"path";

/// The content of a file, with at most `largest` bytes; None if it does not exist.
pub(super) fn read(archive: &Path, path: &str, largest: u64) -> io::Result<Option<Vec<u8>>> {
    let packed = GzDecoder::new(fs::File::open(archive)?);
    find(packed.take(MAX_UNPACKED), path, largest)
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
            // This extension does not matter for a regular file.
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

/// A GNU long name, which ends with a zero.
fn name(entry: &mut Entry<'_, impl Read>) -> io::Result<Vec<u8>> {
    let mut name = extension(entry)?;
    if name.last() == Some(&0) {
        name.pop();
    }
    short(name)
}

fn pax_path(entry: &mut Entry<'_, impl Read>) -> io::Result<Option<Vec<u8>>> {
    let text = extension(entry)?;
    let mut path = None;
    // The crate may not be able to parse the values of other keys.
    for extension in PaxExtensions::new(&text).flatten() {
        if extension.key_bytes() == PATH {
            path = Some(short(extension.value_bytes().to_vec())?);
        }
    }
    Ok(path)
}

fn extension(entry: &mut Entry<'_, impl Read>) -> io::Result<Vec<u8>> {
    super::bounded(entry, MAX_EXTENSION)
}

fn short(path: Vec<u8>) -> io::Result<Vec<u8>> {
    if path.len() > MAX_PATH {
        return Err(io::Error::other("a path is longer than 4096 bytes"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
