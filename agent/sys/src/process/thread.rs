//! The activity of a thread of this process: its processor time and its state.
//!
//! The time is from the thread's clock
//! ([pthread_getcpuclockid(3)](https://man7.org/linux/man-pages/man3/pthread_getcpuclockid.3.html)), and the state from
//! `/proc/self/task/TID/stat`. With `CONFIG_IRQ_TIME_ACCOUNTING` the time does not include softirqs.

use std::{fs, time::Duration};

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
        let stat = fs::read(format!("/proc/self/task/{}/stat", self.0)).ok()?;
        Some(text::stat(&stat).ok()?.state)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Instant};

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
}
