//! Files and folders. A path is relative to the top of the repository, or absolute; each error names it.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::workspace::{root, shown};

pub(crate) fn read(path: impl AsRef<Path>) -> Result<String> {
    at("read", path, fs::read_to_string)
}

pub(crate) fn read_bytes(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    at("read", path, fs::read)
}

/// Creates the missing folders of the path.
pub(crate) fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
    let path = path.as_ref();
    create_folder(path.parent().unwrap_or(path))?;
    at("write", path, |path| fs::write(path, content))
}

/// Creates the missing folders of the copy's path.
pub(crate) fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    let to = to.as_ref();
    create_folder(to.parent().unwrap_or(to))?;
    at("copy", from, |from| fs::copy(from, to).map(drop))
}

pub(crate) fn create_folder(path: impl AsRef<Path>) -> Result<()> {
    at("create", path, fs::create_dir_all)
}

/// Creates an empty folder, also in place of another one.
pub(crate) fn renew_folder(path: impl AsRef<Path>) -> Result<()> {
    at("empty", path, |path| {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(path)
    })
}

/// The sorted paths of the entries of a folder.
pub(crate) fn list(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    at("list", folder, |folder| {
        let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
        let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    })
}

fn at<T>(
    verb: &str,
    path: impl AsRef<Path>,
    work: impl FnOnce(PathBuf) -> io::Result<T>,
) -> Result<T> {
    let path = root().join(path);
    let name = shown(&path);
    work(path).with_context(|| format!("{verb} {name}"))
}
