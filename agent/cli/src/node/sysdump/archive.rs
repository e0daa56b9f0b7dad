//! Writes files as a `.tar.gz` or as a directory. The output is reproducible: sorted names, fixed owner and mode, no current
//! time and no host name.

use std::{
    fs::{self, DirBuilder},
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::output::private_file;

/// Mode of the archived files: not executable; the recipient decides about the rest.
const FILE_MODE: u32 = 0o644;
/// Mode of a directory: only the owner can read it.
const DIRECTORY_MODE: u32 = 0o700;
/// The operating system field of gzip: Unix. Fixed, as the output is reproducible.
const UNIX: u8 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) content: Vec<u8>,
}

/// Writes an archive with the files in the given order.
pub(super) fn write<'file>(
    to: impl Write,
    at_ms: u64,
    files: impl Iterator<Item = &'file File>,
) -> io::Result<()> {
    let seconds = at_ms / 1000;
    let packed = GzBuilder::new()
        .mtime(u32::try_from(seconds).unwrap_or_default())
        .operating_system(UNIX)
        .write(to, Compression::default());
    let mut archive = Builder::new(packed);
    for file in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(FILE_MODE);
        header.set_mtime(seconds);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(file.content.len() as u64);
        archive.append_data(&mut header, &file.path, file.content.as_slice())?;
    }
    let mut to = archive.into_inner()?.finish()?;
    to.flush()
}

/// Creates a directory that only its owner can read.
pub(super) fn write_directory<'file>(
    folder: &Path,
    files: impl Iterator<Item = &'file File>,
) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.mode(DIRECTORY_MODE).create(folder)?;
    let written = write_files(folder, builder.recursive(true), files);
    if written.is_err() {
        // An incomplete directory would prevent the next attempt. It did not exist before.
        drop(fs::remove_dir_all(folder));
    }
    written
}

fn write_files<'file>(
    folder: &Path,
    builder: &DirBuilder,
    files: impl Iterator<Item = &'file File>,
) -> io::Result<()> {
    for file in files {
        let path = folder.join(&file.path);
        if let Some(parent) = path.parent() {
            builder.create(parent)?;
        }
        private_file::create_new(&path)?.write_all(&file.content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_reproducible() {
        let file = |path: &str| File {
            path: path.to_owned(),
            content: path.repeat(200).into_bytes(),
        };
        let long = format!("pods/{}_{}/conns.json", "a".repeat(63), "b".repeat(63));
        let files = [file("manifest.json"), file(&long)];
        let of = |at_ms| {
            let mut bytes = Vec::new();
            write(&mut bytes, at_ms, files.iter()).unwrap();
            bytes
        };
        assert_eq!(of(7000), of(7000));
        assert_ne!(of(7000), of(8000), "its time is in it");
        let bytes = of(7000);
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let entries = archive.entries().unwrap();
        let paths: Vec<String> = entries
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                assert_eq!((header.mtime().unwrap(), header.uid().unwrap()), (7, 0));
                entry.path().unwrap().display().to_string()
            })
            .collect();
        assert_eq!(paths, ["manifest.json".to_owned(), long]);
    }

    #[test]
    fn incomplete_directory_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("sysdump");
        let file = |path: &str, content: &str| File {
            path: path.to_owned(),
            content: content.as_bytes().to_vec(),
        };
        // The second file of a path cannot be created.
        let files = [file("pods/a", "one"), file("pods/a", "two")];
        let error = write_directory(&folder, files.iter()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(!folder.exists());
        write_directory(&folder, files[..1].iter()).unwrap();
        // A directory that existed before stays.
        write_directory(&folder, files.iter()).unwrap_err();
        assert_eq!(fs::read(folder.join("pods/a")).unwrap(), b"one");
    }
}
