//! Creates files that only their owner can read: captures and sysdumps have data of all pods of a node, and may be written
//! to a directory that other users can write.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use crate::{failure::Failure, global::Exit};

const MODE: u32 = 0o600;

/// Creates a file. An existing file is an error, or with `force` is replaced by a new one, so that neither its owner nor a
/// process that has it open can read the data. A named pipe or another special file is opened as it is.
pub(crate) fn create(path: &Path, force: bool) -> io::Result<File> {
    let exists = match create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => error,
        opened => return opened,
    };
    if !fs::metadata(path)?.is_file() {
        let opened = OpenOptions::new().write(true).open(path)?;
        // The path may have changed since metadata().
        if !opened.metadata()?.is_file() {
            return Ok(opened);
        }
    }
    if !force {
        return Err(exists);
    }
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::other("the path is a symbolic link"));
    }
    fs::remove_file(path)?;
    create_new(path)
}

/// Creates a file, which must not exist.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(MODE).open(path)
}

/// The failure of [`create`] or of a write, with the flag that fixes it.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::AlreadyExists => "the file exists; use --force to overwrite it".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => format!(
            "{error} (the agent's container has no writable directory: use -w - and redirect the output where \
             kubectl runs)"
        ),
        _ => error.to_string(),
    };
    let text = format!("cannot write {}: {why}", path.display());
    Failure::new(Exit::Problem, text)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    #[test]
    fn only_the_owner_can_read_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
        create(&path, false).unwrap().write_all(b"one").unwrap();
        assert_eq!(mode(), MODE);
        // A file of another user, who has it open.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let mut theirs = File::open(&path).unwrap();
        let error = create(&path, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        create(&path, true).unwrap().write_all(b"two").unwrap();
        assert_eq!((mode(), fs::read(&path).unwrap()), (MODE, b"two".to_vec()));
        let mut seen = String::new();
        theirs.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "one");
    }

    #[test]
    fn symbolic_links_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let [theirs, link, dangling] =
            ["theirs", "link", "dangling"].map(|name| folder.path().join(name));
        fs::write(&theirs, "theirs").unwrap();
        symlink(&theirs, &link).unwrap();
        symlink(folder.path().join("none"), &dangling).unwrap();
        for force in [false, true] {
            assert!(create(&link, force).is_err());
            assert!(create(&dangling, force).is_err());
        }
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
        assert!(!folder.path().join("none").exists());
    }

    #[test]
    fn special_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, link] = ["pipe", "link"].map(|name| folder.path().join(name));
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        symlink(&pipe, &link).unwrap();
        let mut reader = OpenOptions::new();
        let mut reader = reader.read(true).write(true).open(&pipe).unwrap();
        create(&link, false).unwrap().write_all(b"x").unwrap();
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        create(Path::new("/dev/null"), true).unwrap();
    }
}
