//! Crash points: places at which a test stops the agent, in order to kill it there.
//!
//! Only a build with the feature `boundaries`, for tests, has them. In other builds [`reach`] is empty. A test sets two
//! variables: `USHER_BOUNDARY` is a crash point, such as `before:arm`, or `before:arm#3` for the third time;
//! `USHER_BOUNDARY_FILE` is a file to create there. Then the thread stops the whole process by a `SIGSTOP` to itself,
//! so that it executes no further instruction.

/// Marks a crash point. `of` is its subject, and may be empty.
#[cfg(not(feature = "boundaries"))]
#[inline]
pub const fn reach(_place: &str, _of: &str) {}

/// The variables that a child process needs for its own crash points.
#[cfg(not(feature = "boundaries"))]
pub const fn variables() -> [(&'static str, String); 0] {
    []
}

#[cfg(feature = "boundaries")]
pub use stop::{reach, variables};

#[cfg(feature = "boundaries")]
mod stop {
    use std::{
        env,
        fs::File,
        sync::atomic::{AtomicU32, Ordering},
    };

    use nix::sys::signal::{Signal, raise};

    const PLACE: &str = "USHER_BOUNDARY";
    const FILE: &str = "USHER_BOUNDARY_FILE";

    /// Number of times that the crash point was reached.
    static TIMES: AtomicU32 = AtomicU32::new(0);

    /// The variables that a child process needs for its own crash points.
    pub fn variables() -> Vec<(&'static str, String)> {
        [PLACE, FILE]
            .into_iter()
            .filter_map(|name| Some((name, env::var(name).ok()?)))
            .collect()
    }

    pub fn reach(place: &str, of: &str) {
        let Ok(wanted) = env::var(PLACE) else {
            return;
        };
        let (wanted, time) = wanted.split_once('#').unwrap_or((&wanted, "1"));
        let here = wanted.split_once(':').unwrap_or((wanted, "")) == (place, of);
        let is_time = |times: u32| time.parse() == Ok(times);
        if !here || !is_time(TIMES.fetch_add(1, Ordering::Relaxed) + 1) {
            return;
        }
        let made = env::var(FILE).map(File::create_new);
        tracing::debug!(?made, "stopping here");
        // If this fails, the test times out.
        raise(Signal::SIGSTOP).ok();
    }
}
