//! Releases resident pages of this program's code.
//!
//! The kernel maps code on first use, sixteen pages around each access
//! ([`do_fault_around`](https://github.com/torvalds/linux/blob/v6.12/mm/memory.c)). Code that only the start needs
//! would stay resident. Released pages stay in the page cache; the next use maps them again, in about a microsecond.

use std::{ffi::c_void, io};

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};

/// The pages could not be released, and are still resident.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `/proc/self/maps` cannot be read.
    #[error("reading the memory map of this process")]
    Maps(#[from] procfs::ProcError),
    #[error("releasing the pages of the program's code")]
    Advise(#[source] io::Error),
}

/// Releases the pages of this program's code. Call it at the end of the start.
///
/// # Errors
/// [`Error`]; nothing has changed in that case.
pub fn give_back() -> Result<(), Error> {
    let process = Process::myself()?;
    let program = process.exe()?;
    let maps = process.maps()?;
    let is_code = |map: &&MemoryMap| {
        map.perms == MMPermissions::READ | MMPermissions::EXECUTE | MMPermissions::PRIVATE
            && map.pathname == MMapPath::Path(program.clone())
    };
    maps.iter().filter(is_code).try_for_each(release)
}

#[expect(
    unsafe_code,
    reason = "madvise is unsafe, because other advice discards data"
)]
fn release(map: &MemoryMap) -> Result<(), Error> {
    let (from, to) = map.address;
    let range = usize::try_from(from)
        .ok()
        .zip(usize::try_from(to - from).ok());
    let Some((from, length)) = range else {
        return Ok(());
    };
    // SAFETY: the mapping is in the memory map that was just read. It is private, of a file, and not writable, so its
    // pages equal the file's: the next access maps them from the file again.
    let done = unsafe { libc::madvise(from as *mut c_void, length, libc::MADV_DONTNEED) };
    if done == 0 {
        return Ok(());
    }
    Err(Error::Advise(io::Error::last_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of resident bytes of the program's code.
    fn resident() -> u64 {
        let process = Process::myself().unwrap();
        let program = MMapPath::Path(process.exe().unwrap());
        let maps = process.smaps().unwrap();
        maps.iter()
            .filter(|map| map.perms.contains(MMPermissions::EXECUTE) && map.pathname == program)
            .map(|map| map.extension.map["Rss"])
            .sum()
    }

    /// Runs code that [`resident`] does not use.
    fn run_other_code() {
        let process = Process::myself().unwrap();
        let output = format!(
            "{:?} {:?} {:?}",
            process.mountinfo().unwrap().0,
            process.limits().unwrap(),
            process.io().unwrap()
        );
        assert!(!output.is_empty());
    }

    #[test]
    fn released_code_is_mapped_again() {
        // Other tests of the program run the same code meanwhile.
        let is_mapped_again = |_attempt| {
            run_other_code();
            let before = resident();
            give_back().unwrap();
            let released = resident();
            run_other_code();
            released < before && released < resident()
        };
        assert!((0..100).any(is_mapped_again));
    }
}
