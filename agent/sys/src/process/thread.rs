//! The activity of threads: the processor time of one of this process, and the states of those of any process.
//!
//! The time is from the thread's clock
//! ([pthread_getcpuclockid(3)](https://man7.org/linux/man-pages/man3/pthread_getcpuclockid.3.html)), and the state from
//! `/proc/PID/task/TID/stat`. With `CONFIG_IRQ_TIME_ACCOUNTING` the time does not include softirqs.

use std::{fs, path::Path, time::Duration};

use nix::{
    time::{ClockId, clock_gettime},
    unistd::{Pid, gettid},
};

use crate::pods::proc::text;

/// The clock of a thread: `CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK`
/// ([posix-timers_types.h](https://github.com/torvalds/linux/blob/v6.12/include/linux/posix-timers_types.h)).
const THREAD_CLOCK: libc::clockid_t = 2 | 4;

#[derive(Debug, Clone, Copy)]
pub struct Thread(Pid);

impl Thread {
    pub fn current() -> Self {
        Self(gettid())
    }

    /// Its processor time since its start; None if it has exited.
    pub fn cpu_time(self) -> Option<Duration> {
        let clock = (!self.0.as_raw() << 3) | THREAD_CLOCK;
        clock_gettime(ClockId::from_raw(clock))
            .ok()
            .map(Duration::from)
    }

    /// Its state, such as `R` for a thread that runs or waits for a processor; None if `/proc` does not have it.
    pub fn state(self) -> Option<char> {
        state(Path::new(&format!("/proc/self/task/{}", self.0)))
    }
}

/// Whether one of the threads of a process runs, or waits for a processor.
pub(super) fn is_runnable(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.any(|thread| state(&thread.path()) == Some('R'))
}

/// How long the present threads of a process have waited for a processor since their start, without the current wait.
/// Zero without `CONFIG_SCHED_INFO`.
pub(super) fn run_delay(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    threads.filter_map(|thread| delay_of(&thread.path())).sum()
}

/// The second field of [schedstat](https://docs.kernel.org/scheduler/sched-stats.html).
fn delay_of(thread: &Path) -> Option<Duration> {
    let text = fs::read_to_string(thread.join("schedstat")).ok()?;
    let nanoseconds = text.split(' ').nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

fn state(thread: &Path) -> Option<char> {
    let stat = fs::read(thread.join("stat")).ok()?;
    Some(text::stat(&stat).ok()?.state)
}

#[cfg(test)]
mod tests {
    use std::{
        process::{self, Command},
        sync::mpsc,
        thread,
        time::Instant,
    };

    use super::*;

    #[test]
    fn a_thread_that_computes_differs_from_one_that_waits() {
        let (report, started) = mpsc::channel();
        let (end, wait) = mpsc::channel::<()>();
        let waits = {
            let report = report.clone();
            thread::spawn(move || {
                report.send(Thread::current()).unwrap();
                wait.recv().ok();
            })
        };
        let waiting = started.recv().unwrap();
        let (enough, is_enough) = mpsc::channel::<()>();
        let computes = thread::spawn(move || {
            report.send(Thread::current()).unwrap();
            while is_enough.try_recv() == Err(mpsc::TryRecvError::Empty) {}
        });
        let computing = started.recv().unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        let is_as_expected = || {
            let time = computing.cpu_time().unwrap();
            time >= Duration::from_millis(50)
                && computing.state() == Some('R')
                && waiting.state() == Some('S')
                && waiting.cpu_time().unwrap() < time
        };
        while !is_as_expected() {
            assert!(Instant::now() < limit, "{computing:?} {waiting:?}");
            thread::yield_now();
        }
        drop((end, enough));
        waits.join().unwrap();
        computes.join().unwrap();
    }

    #[test]
    fn a_process_that_sleeps_is_not_runnable() {
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let limit = Instant::now() + Duration::from_secs(50);
        while is_runnable(sleeper.id()) {
            assert!(Instant::now() < limit);
            thread::yield_now();
        }
        assert!(
            run_delay(sleeper.id()) > Duration::ZERO,
            "it waited before its first instruction"
        );
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(is_runnable(process::id()));
    }
}
