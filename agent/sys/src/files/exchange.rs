//! Two files change places in one step
//! ([rename(2)](https://man7.org/linux/man-pages/man2/rename.2.html), `RENAME_EXCHANGE`, Linux 3.15).
//!
//! A file that is replaced this way is still there afterwards, under the other name: whoever replaced it can look at
//! what it was and put it back. File systems without it (NFS, some FUSE) answer EINVAL. Watchers see a rename of both
//! names.

use std::{ffi::CString, io, os::unix::ffi::OsStrExt, path::Path};

/// Lets two files of one file system change places.
///
/// # Errors
/// What the kernel says: ENOENT when one of them is not there, EINVAL when the file system cannot do it.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let one = CString::new(one.as_os_str().as_bytes())?;
    let other = CString::new(other.as_os_str().as_bytes())?;
    // By number, since not every libc has a function for it.
    // SAFETY: both pointers lead to texts that end with NUL and live until the call returns; the kernel only reads them.
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
    fn both_are_there_afterwards() {
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
