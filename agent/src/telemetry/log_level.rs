//! The log filter. An operator changes it for a limited time, so that a forgotten debug filter does not fill the
//! node's disk.
//!
//! The holder process keeps the filter that it was started with.

use std::{
    fmt::Display,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use tracing_subscriber::{EnvFilter, Registry, reload};
use usher_client::error_chain::chain;
use usher_core::admin::{
    Log,
    log_filter::{NotADirective, Wish},
};

/// Replaces the filter of the subscriber.
type Reload = reload::Handle<EnvFilter, Registry>;

static LOG_LEVEL: OnceLock<LogLevel> = OnceLock::new();

/// The filter of this process; None if it does not log.
pub(crate) fn log_level() -> Option<&'static LogLevel> {
    LOG_LEVEL.get()
}

pub(super) fn register(base: &str, reload: Reload) {
    // Set only once: a process does not start logging again.
    LOG_LEVEL.get_or_init(|| LogLevel::new(base, reload));
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Directive(#[from] NotADirective),
    #[error("invalid log filter {filter:?}: {why}")]
    Filter { filter: String, why: String },
}

#[derive(Debug)]
pub(crate) struct LogLevel {
    /// The filter of the start.
    base: String,
    reload: Reload,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    changes: u64,
    /// The filter that replaces the base, and the end of its duration.
    replacement: Option<(String, Instant)>,
}

/// One change, for the task that reverts it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    number: u64,
    pub(crate) duration: Duration,
}

impl LogLevel {
    fn new(base: &str, reload: Reload) -> Self {
        Self {
            base: base.to_owned(),
            reload,
            state: Mutex::default(),
        }
    }

    pub(crate) fn log(&self, now: Instant) -> Log {
        let replacement = self.state().replacement.clone();
        let until = replacement
            .as_ref()
            .map(|(_, until)| until.saturating_duration_since(now));
        Log {
            filter: replacement.map_or_else(|| self.base.clone(), |(filter, _)| filter),
            base: self.base.clone(),
            reverts_in_ms: until.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    /// Replaces the filter. The caller calls [`LogLevel::reset`] when the change's duration is over.
    pub(crate) fn set(&self, wish: &Wish, now: Instant) -> Result<Change, Error> {
        let (filter, duration) = wish.filter(&self.base)?;
        let mut state = self.state();
        self.reload(&filter)?;
        state.changes += 1;
        state.replacement = Some((filter, now + duration));
        Ok(Change {
            number: state.changes,
            duration,
        })
    }

    /// Reverts to the filter of the start; where `change` is given, only if it is the last one. Returns whether the
    /// filter changed.
    pub(crate) fn reset(&self, change: Option<Change>) -> bool {
        let mut state = self.state();
        let is_last = change.is_none_or(|change| change.number == state.changes);
        if !is_last || state.replacement.is_none() {
            return false;
        }
        if let Err(error) = self.reload(&self.base) {
            // The base was valid at the start.
            tracing::error!(error = %chain(&error), "could not revert the log filter");
        }
        state.replacement = None;
        state.changes += 1;
        true
    }

    fn reload(&self, filter: &str) -> Result<(), Error> {
        let failed = |why: &dyn Display| Error::Filter {
            filter: filter.to_owned(),
            why: why.to_string(),
        };
        let parsed = EnvFilter::try_new(filter).map_err(|error| failed(&error))?;
        self.reload.reload(parsed).map_err(|error| failed(&error))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layer, which ends the handle when it is dropped, and the filter.
    fn log_level() -> (reload::Layer<EnvFilter, Registry>, LogLevel) {
        let (layer, reload) = reload::Layer::new(EnvFilter::new("info"));
        (layer, LogLevel::new("info", reload))
    }

    fn current(level: &LogLevel) -> String {
        level.reload.with_current(EnvFilter::to_string).unwrap()
    }

    fn wish(directive: &str) -> Wish {
        Wish {
            directives: vec![directive.to_owned()],
            for_ms: 60_000,
        }
    }

    #[test]
    fn last_change_applies_until_its_own_end() {
        let (_layer, level) = log_level();
        let now = Instant::now();
        assert_eq!(level.log(now).reverts_in_ms, None);
        let first = level.set(&wish("core=debug"), now).unwrap();
        assert!(current(&level).contains("usher_core=debug"));
        let second = level.set(&wish("sys=trace"), now).unwrap();
        let log = level.log(now + Duration::from_secs(20));
        assert_eq!(log.filter, "info,usher_sys=trace");
        assert_eq!((&log.base[..], log.reverts_in_ms), ("info", Some(40_000)));
        assert!(
            !level.reset(Some(first)),
            "the end of the first change does not revert the second"
        );
        assert!(current(&level).contains("usher_sys=trace"));
        assert!(level.reset(Some(second)));
        assert_eq!(level.log(now).filter, "info");
        assert!(!level.reset(None), "nothing is left to revert");
        assert_eq!(current(&level), "info");
    }

    #[test]
    fn invalid_directive_changes_nothing() {
        let (_layer, level) = log_level();
        let error = level.set(&wish("core=loud"), Instant::now()).unwrap_err();
        assert!(error.to_string().contains("loud"), "{error}");
        assert_eq!(current(&level), "info");
    }
}
