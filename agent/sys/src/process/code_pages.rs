//! The pages of this program's own code that it does not need now.
//!
//! The kernel maps code as it is used, sixteen pages around each
//! ([`do_fault_around`](https://github.com/torvalds/linux/blob/v6.12/mm/memory.c)), and counts as resident for ever what
//! only the start of a program has needed. Given back, the pages stay in the page cache; those that are used again are
//! mapped again, in about a microsecond.

use std::{ffi::c_void, io};

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};

/// They are resident as before.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `/proc/self/maps` cannot be read.
    #[error("reading what /proc says of this program's memory")]
    Maps(#[from] procfs::ProcError),
    /// The kernel refuses.
    #[error("giving back the pages of the program's code")]
    Advise(#[source] io::Error),
}

/// Gives back the pages of this program's code. To be called where its start is over.
///
/// # Errors
/// [`Error`], after which nothing is different.
pub fn give_back() -> Result<(), Error> {
    let process = Process::myself()?;
    let program = process.exe()?;
    let maps = process.maps()?;
    let is_code = |map: &&MemoryMap| {
        map.perms == MMPermissions::READ | MMPermissions::EXECUTE | MMPermissions::PRIVATE
            && map.pathname == MMapPath::Path(program.clone())
    };
    maps.iter().filter(is_code).try_for_each(forget)
}

#[expect(
    unsafe_code,
    reason = "madvise is unsafe for whatever it may be asked for"
)]
fn forget(map: &MemoryMap) -> Result<(), Error> {
    let (from, to) = map.address;
    let range = usize::try_from(from)
        .ok()
        .zip(usize::try_from(to - from).ok());
    let Some((from, length)) = range else {
        return Ok(());
    };
    // SAFETY: the kernel has just told of this mapping. It is private, of a file, and nobody can write to it, so that
    // its pages are the file's: what is read or executed there next is mapped from the file again, as it was the first
    // time.
    let done = unsafe { libc::madvise(from as *mut c_void, length, libc::MADV_DONTNEED) };
    if done == 0 {
        return Ok(());
    }
    Err(Error::Advise(io::Error::last_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident pages of the program's file and of others, in KiB.
    fn resident() -> u64 {
        let status = Process::myself().unwrap().status().unwrap();
        status.rssfile.unwrap()
    }

    #[test]
    fn code_that_is_used_is_mapped_again() {
        let before = resident();
        give_back().unwrap();
        assert!(resident() < before, "{before} KiB");
    }
}
