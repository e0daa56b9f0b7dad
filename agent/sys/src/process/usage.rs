//! Resource usage of this process, from `/proc/self`
//! ([proc_pid_stat(5)](https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html)).
//!
//! Reading fails only with an unusual mount of `/proc`; then the metrics are missing.

use std::time::Duration;

use procfs::{
    ProcError,
    process::{LimitValue, Process},
};

/// The usage cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("reading the resource usage of this process")]
pub struct Error(#[from] ProcError);

/// Resource usage of this process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Processor time, in user and system mode.
    pub cpu: Duration,
    /// Bytes of memory that are in RAM.
    pub resident: u64,
    /// Size of the address space in bytes.
    pub virtual_size: u64,
    pub open_fds: usize,
    /// Limit of open descriptors; None without a limit.
    pub max_fds: Option<u64>,
    /// Start time since 1970.
    pub started: Duration,
}

impl Usage {
    pub fn own() -> Result<Self, Error> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let max_fds = match process.limits()?.max_open_files.soft_limit {
            LimitValue::Value(limit) => Some(limit),
            LimitValue::Unlimited => None,
        };
        Ok(Self {
            cpu: ticks(stat.utime + stat.stime),
            resident: stat.rss * procfs::page_size(),
            virtual_size: stat.vsize,
            open_fds: process.fd_count()?,
            max_fds,
            started: Duration::from_secs(procfs::boot_time_secs()?) + ticks(stat.starttime),
        })
    }
}

/// Converts clock ticks.
fn ticks(count: u64) -> Duration {
    let per_second = procfs::ticks_per_second().max(1);
    Duration::from_millis(count.saturating_mul(1000) / per_second)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn figures_are_those_of_a_living_process() {
        let before = Usage::own().unwrap();
        let opened = [(); 20].map(|()| std::fs::File::open("/proc/self/stat").unwrap());
        let after = Usage::own().unwrap();
        // Other tests of this program open and close descriptors at the same time.
        assert!(after.open_fds >= opened.len(), "{after:?}");
        assert!(after.cpu >= before.cpu);
        assert!(after.resident > 1 << 20 && after.resident < after.virtual_size);
        assert!(
            after
                .max_fds
                .is_none_or(|most| most as usize >= after.open_fds)
        );
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let age = now.unwrap().as_secs_f64() - after.started.as_secs_f64();
        // The kernel reports the boot time in whole seconds.
        assert!((-2.0..3600.0).contains(&age), "{age}");
        drop(opened);
    }
}
