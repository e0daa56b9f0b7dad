//! A kernel timer that kills this process unless it is re-armed.
//!
//! [timer_create(2)](https://man7.org/linux/man-pages/man2/timer_create.2.html) with `SIGKILL` also kills a stopped
//! process, which a timer inside the process could not. The timer ends with the process. Child processes and executed
//! programs do not inherit it.

use std::{io, time::Duration};

use nix::{
    errno::Errno,
    sys::{
        signal::{SigEvent, SigevNotify, Signal},
        timer::{Expiration, Timer, TimerSetTimeFlags},
    },
    time::ClockId,
};

/// The kernel rejected the timer.
#[derive(Debug, thiserror::Error)]
#[error("{call} for the watchdog")]
pub struct Error {
    call: &'static str,
    source: io::Error,
}

#[derive(Debug)]
pub struct Watchdog(Timer);

impl Watchdog {
    /// Creates a disarmed timer.
    ///
    /// # Errors
    /// [`Error`]: out of memory, or no signal can be queued (`RLIMIT_SIGPENDING`).
    pub fn new() -> Result<Self, Error> {
        let kill = SigEvent::new(SigevNotify::SigevSignal {
            signal: Signal::SIGKILL,
            si_value: 0,
        });
        let timer = Timer::new(ClockId::CLOCK_MONOTONIC, kill);
        timer.map(Self).map_err(failed("timer_create"))
    }

    /// Kills the process after this time, unless the timer is armed again or disarmed before. Zero means the shortest
    /// time, because the kernel would disarm the timer at 0.
    pub fn arm(&mut self, after: Duration) -> Result<(), Error> {
        self.set(after.max(Duration::from_nanos(1)))
    }

    pub fn disarm(&mut self) -> Result<(), Error> {
        self.set(Duration::ZERO)
    }

    fn set(&mut self, after: Duration) -> Result<(), Error> {
        let once = Expiration::OneShot(after.into());
        let set = self.0.set(once, TimerSetTimeFlags::empty());
        set.map_err(failed("timer_settime"))
    }
}

fn failed(call: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| Error {
        call,
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn armed_and_disarmed() {
        let mut watchdog = Watchdog::new().unwrap();
        let is_armed = |watchdog: &Watchdog| watchdog.0.get().unwrap().is_some();
        assert!(!is_armed(&watchdog));
        watchdog.arm(Duration::from_secs(3600)).unwrap();
        assert!(is_armed(&watchdog));
        watchdog.disarm().unwrap();
        assert!(!is_armed(&watchdog));
    }
}
