//! Exchanges two files in one step
//! ([rename(2)](https://man7.org/linux/man-pages/man2/rename.2.html), `RENAME_EXCHANGE`, Linux 3.15).
//! The replaced file remains under the other name, so that the caller can read and restore it. File systems without
//! support (NFS, some FUSE) return EINVAL. Watchers receive a rename of both names.

use std::{io, path::Path};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Exchanges two files of one file system.
///
/// # Errors
/// ENOENT if one of them does not exist, EINVAL if the file system has no support.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_files_exist_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("1"), dir.path().join("2"));
        fs::write(&one, "a").unwrap();
        let absent = exchange(&one, &other).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
        fs::write(&other, "b").unwrap();
        exchange(&one, &other).unwrap();
        assert_eq!(fs::read(&one).unwrap(), b"b");
        assert_eq!(fs::read(&other).unwrap(), b"a");
    }
}
