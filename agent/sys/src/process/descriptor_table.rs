//! The table of this process's open descriptors.
//!
//! When a process with several threads needs a larger table, the kernel waits until every processor has left the kernel
//! (`synchronize_rcu` in [`expand_fdtable`](https://github.com/torvalds/linux/blob/v6.12/fs/file.c)). A pod with costly
//! packet filter rules can delay that for seconds with one packet. A process with one thread does not wait.

use std::io;

use nix::sys::{
    eventfd::EventFd,
    resource::{Resource, getrlimit, setrlimit},
};
use rustix::io::fcntl_dupfd_cloexec;

/// Number of descriptors: enough for more pods than a node has. Each costs 8 bytes of kernel memory.
const SIZE: u64 = 8192;

/// Raises the limit of open descriptors as far as permitted, and enlarges the table. Call it before the first thread is
/// started.
///
/// # Errors
/// If the limit cannot be raised, or no memory is left.
pub fn prepare() -> io::Result<()> {
    // The usual soft limit of 1024 exists for programs that call `select`.
    let (_soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    reserve(SIZE.min(hard))
}

fn reserve(size: u64) -> io::Result<()> {
    let last = size.saturating_sub(1).try_into().unwrap_or(i32::MAX);
    let some = EventFd::new()?;
    drop(fcntl_dupfd_cloexec(some, last)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_table_is_large_afterwards() {
        let size = || -> u64 {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
            line.unwrap().trim().parse().unwrap()
        };
        let wanted = size() * 2;
        reserve(wanted).unwrap();
        assert!(size() >= wanted);
    }
}
