//! Exchanges two files in one step
//! ([rename(2)](https://man7.org/linux/man-pages/man2/rename.2.html), `RENAME_EXCHANGE`, Linux 3.15).
//! The replaced file remains under the other name, so that the caller can read and restore it. File systems without
//! support (NFS, some FUSE) return EINVAL. Watchers receive a rename of both names.

use std::{ffi::CString, io, os::unix::ffi::OsStrExt, path::Path};

/// Exchanges two files of one file system.
///
/// # Errors
/// ENOENT if one of them does not exist, EINVAL if the file system has no support.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let one = CString::new(one.as_os_str().as_bytes())?;
    let other = CString::new(other.as_os_str().as_bytes())?;
    // Called by number, because not every libc has a function for it.
    // SAFETY: both pointers lead to NUL-terminated texts that live until the call returns; the kernel only reads them.
    #[expect(unsafe_code, reason = "nix has this call for glibc only")]
    let done = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            one.as_ptr(),
            libc::AT_FDCWD,
            other.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
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
