//! A timer of the kernel that kills this process when it does not go on.
//!
//! [timer_create(2)](https://man7.org/linux/man-pages/man2/timer_create.2.html)
//! with `SIGKILL`: it ends a process that is stopped as well, which no timer
//! of the process's own would. It goes with the process, and neither a child
//! nor a program that is executed has it.

use std::{io, time::Duration};

use nix::{
    errno::Errno,
    sys::{
        signal::{SigEvent, SigevNotify, Signal},
        timer::{Expiration, Timer, TimerSetTimeFlags},
    },
    time::ClockId,
};

/// The kernel does not take the timer.
#[derive(Debug, thiserror::Error)]
#[error("{call} for the watchdog")]
pub struct Error {
    call: &'static str,
    source: io::Error,
}

/// The timer.
#[derive(Debug)]
pub struct Watchdog(Timer);

impl Watchdog {
    /// Makes one that is not armed.
    ///
    /// # Errors
    /// [`Error`]: no memory, or no signal left to be queued
    /// (`RLIMIT_SIGPENDING`).
    pub fn new() -> Result<Self, Error> {
        let kill = SigEvent::new(SigevNotify::SigevSignal {
            signal: Signal::SIGKILL,
            si_value: 0,
        });
        let timer = Timer::new(ClockId::CLOCK_MONOTONIC, kill);
        timer.map(Self).map_err(failed("timer_create"))
    }

    /// Has the process killed after this time, unless it is armed again or
    /// disarmed before. Zero would disarm, and counts as the shortest time.
    ///
    /// # Errors
    /// [`Error`].
    pub fn arm(&mut self, after: Duration) -> Result<(), Error> {
        self.set(after.max(Duration::from_nanos(1)))
    }

    /// Lets the process live.
    ///
    /// # Errors
    /// [`Error`].
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
