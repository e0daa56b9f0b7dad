//! Places at which a test has the agent stop, to kill it exactly there.
//!
//! Only a build with the feature `boundaries`, which nobody ships, has any of it; elsewhere [`reach`] is empty.
//! Such a build looks at two variables: `USHER_BOUNDARY` is a place, as `before:arm`, or `before:arm#3` for the third
//! time that it is reached; `USHER_BOUNDARY_FILE` is a file to make there. Then the thread that came there stops the
//! whole process by `SIGSTOP`, which is sent to itself, so that not one more instruction of it runs.

/// The agent is at a place, about this; nothing where it is about nothing in particular.
#[cfg(not(feature = "boundaries"))]
#[inline]
pub const fn reach(_place: &str, _of: &str) {}

#[cfg(feature = "boundaries")]
pub use stop::reach;

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

    /// How often the place was reached.
    static TIMES: AtomicU32 = AtomicU32::new(0);

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
        // Nothing is left to do if even that fails: the test waits in vain.
        raise(Signal::SIGSTOP).ok();
    }
}
