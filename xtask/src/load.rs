//! How busy the machine's processors were meanwhile, whoever it was for.

use std::fs;

/// What all processors have done since the machine's start, in clock ticks: the first line of
/// [`/proc/stat`](https://man7.org/linux/man-pages/man5/proc_stat.5.html).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    busy: u64,
    all: u64,
}

impl Load {
    /// None where it cannot be read.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        // User, nice, system, idle, iowait, irq, softirq, steal; what comes after is in the first two already.
        let ticks = line.split_whitespace().take(8).map(str::parse);
        let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
        let idle = ticks.get(3)? + ticks.get(4)?;
        let all = ticks.iter().sum();
        Some(Self {
            busy: all - idle,
            all,
        })
    }

    /// The share of all processors that was used from `earlier` until now, in percent.
    pub(crate) fn since(self, earlier: Self) -> u64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        // Rounding, and a kernel whose count of idle time steps back.
        (self.busy.saturating_sub(earlier.busy) * 100 / all).min(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_disks_is_no_work_and_guests_count_once() {
        let load = Load::parse("cpu  10 2 3 70 5 4 3 3 7 1\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!(load, Load { busy: 25, all: 100 });
        let later = Load { busy: 85, all: 200 };
        assert_eq!(later.since(load), 60);
        assert_eq!(load.since(load), 0);
        assert_eq!(Load::parse("cpu  1 2 x 4 5"), None);
        assert_eq!(Load::parse("cpu0 1 2 3 4 5"), None);
    }

    #[test]
    fn this_machine_says_it() {
        let load = Load::now().unwrap();
        assert!(load.busy > 0 && load.all > load.busy, "{load:?}");
    }
}
