//! The log's filter, which people change for a while and which goes back by itself: nobody has to remember, and a
//! node does not fill its disk because of a question of last week.
//!
//! The process that holds starts logs by the filter that it was started with.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use tracing_subscriber::EnvFilter;
use usher_core::admin::{
    Log,
    log_filter::{NotADirective, Wish},
};

/// Puts another filter in the place of the one that counts.
type Put = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

static LEVEL: OnceLock<Level> = OnceLock::new();

/// The filter of this process; None where nobody logs.
pub(crate) fn level() -> Option<&'static Level> {
    LEVEL.get()
}

/// From now on the filter can be changed.
pub(super) fn keep(base: &str, put: Put) {
    // The first one counts; there is no second.
    LEVEL.get_or_init(|| Level::new(base, put));
}

/// A filter could not be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Wish(#[from] NotADirective),
    #[error("{filter:?} is no filter: {why}")]
    Filter { filter: String, why: String },
}

/// The filter.
pub(crate) struct Level {
    base: String,
    put: Put,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    /// How often it was changed.
    count: u64,
    /// What counts instead of what was there at the start, and until when.
    other: Option<(String, Instant)>,
}

/// A change, for who ends it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    count: u64,
    pub(crate) lasts: Duration,
}

impl Level {
    fn new(base: &str, put: Put) -> Self {
        Self {
            base: base.to_owned(),
            put,
            now: Mutex::default(),
        }
    }

    /// What counts.
    pub(crate) fn log(&self, now: Instant) -> Log {
        let other = self.now().other.clone();
        let until = other
            .as_ref()
            .map(|(_, until)| until.saturating_duration_since(now));
        Log {
            filter: other.map_or_else(|| self.base.clone(), |(filter, _)| filter),
            base: self.base.clone(),
            reverts_in_ms: until.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    /// Does what somebody wants; who calls this ends it when its time is over.
    pub(crate) fn set(&self, wish: &Wish, now: Instant) -> Result<Change, Error> {
        let (filter, lasts) = wish.filter(&self.base)?;
        let mut state = self.now();
        self.put(&filter)?;
        state.count += 1;
        state.other = Some((filter, now + lasts));
        Ok(Change {
            count: state.count,
            lasts,
        })
    }

    /// Has the filter of the start count again; for one change only, where that is the last one.
    pub(crate) fn reset(&self, of: Option<Change>) -> bool {
        let mut state = self.now();
        let is_meant = of.is_none_or(|change| change.count == state.count);
        if !is_meant || state.other.is_none() {
            return false;
        }
        if let Err(error) = self.put(&self.base) {
            // It was one at the start.
            tracing::error!(%error, "could not put the log's filter back");
        }
        state.other = None;
        state.count += 1;
        true
    }

    fn put(&self, filter: &str) -> Result<(), Error> {
        let failed = |why| Error::Filter {
            filter: filter.to_owned(),
            why,
        };
        let parsed = EnvFilter::try_new(filter).map_err(|error| failed(error.to_string()))?;
        (self.put)(parsed).map_err(failed)
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Level")
            .field("base", &self.base)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    type Seen = Arc<Mutex<Vec<String>>>;

    fn level() -> (Level, Seen) {
        let seen = Seen::default();
        let puts = Arc::clone(&seen);
        let put = move |filter: EnvFilter| {
            puts.lock().unwrap().push(filter.to_string());
            Ok(())
        };
        (Level::new("info", Box::new(put)), seen)
    }

    fn wish(directive: &str) -> Wish {
        Wish {
            directives: vec![directive.to_owned()],
            for_ms: 60_000,
        }
    }

    #[test]
    fn the_last_wish_counts_until_its_own_end() {
        let (level, seen) = level();
        let now = Instant::now();
        assert_eq!(level.log(now).reverts_in_ms, None);
        let first = level.set(&wish("core=debug"), now).unwrap();
        let second = level.set(&wish("sys=trace"), now).unwrap();
        let log = level.log(now + Duration::from_secs(20));
        assert_eq!(log.filter, "info,usher_sys=trace");
        assert_eq!((&log.base[..], log.reverts_in_ms), ("info", Some(40_000)));
        assert!(
            !level.reset(Some(first)),
            "the end of the first is none of the second"
        );
        assert!(level.reset(Some(second)));
        assert_eq!(level.log(now).filter, "info");
        assert!(!level.reset(None), "there is nothing to end");
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen.len(), 3, "{seen:?}");
        assert_eq!(seen[2], "info");
    }

    #[test]
    fn what_is_no_directive_changes_nothing() {
        let (level, seen) = level();
        let error = level.set(&wish("core=loud"), Instant::now()).unwrap_err();
        assert!(
            error.to_string().contains("\"loud\" is no level"),
            "{error}"
        );
        assert!(seen.lock().unwrap().is_empty());
    }
}
