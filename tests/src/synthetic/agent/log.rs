//! The agent's log: read by a thread, waited for on a condition variable.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::wait::{patience, slower};

/// A process without its agent exits in far less; a stopped holder needs 2 s.
const SOON: Duration = Duration::from_secs(30);

/// Lines of an agent, each a JSON object. A line that is not JSON, such as a
/// panic's, becomes an object with the single field `text`.
#[derive(Debug, Clone, Default)]
pub struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<Value>,
    open: usize,
    paused: bool,
}

impl Log {
    /// Reads lines until the stream closes.
    pub(super) fn follow(&self, stream: impl Read + Send + 'static) -> JoinHandle<()> {
        self.state().open += 1;
        let log = self.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                log.while_paused();
                let line = serde_json::from_str(&line).unwrap_or_else(|_| json!({"text": line}));
                log.state().lines.push(line);
                log.shared.changed.notify_all();
            }
            log.state().open -= 1;
            log.shared.changed.notify_all();
        })
    }

    /// Stops reading, as during an outage of the runtime, until [`Log::resume`].
    pub fn pause(&self) {
        self.state().paused = true;
    }

    /// Reads on, including the lines written during the pause.
    pub fn resume(&self) {
        self.state().paused = false;
        self.shared.changed.notify_all();
    }

    fn while_paused(&self) {
        let state = self.state();
        let waited = self.shared.changed.wait_while(state, |state| state.paused);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<Value> {
        self.state().lines.clone()
    }

    /// Drops the lines so far, so that a long run does not keep them. No thread may wait for a line meanwhile.
    pub fn forget(&self) {
        self.state().lines.clear();
    }

    /// The number of matching lines so far.
    pub fn count(&self, wanted: impl Fn(&Value) -> bool) -> usize {
        let state = self.state();
        state.lines.iter().filter(|line| wanted(line)).count()
    }

    /// Waits until `found` returns a value for a line, earlier lines included.
    ///
    /// # Panics
    ///
    /// After a timeout, or if the agent exits first.
    pub fn wait<T>(&self, what: &str, found: impl Fn(&Value) -> Option<T>) -> T {
        let deadline = Instant::now() + patience();
        let mut state = self.state();
        let mut looked = 0;
        loop {
            if let Some(outcome) = state.lines.iter().skip(looked).find_map(&found) {
                return outcome;
            }
            looked = state.lines.len();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.open == 0 {
                let lines: Vec<String> = state.lines.iter().map(Value::to_string).collect();
                let ended = if state.open == 0 {
                    "; the agent ended"
                } else {
                    ""
                };
                drop(state);
                panic!(
                    "timed out waiting for {what}{ended}; its log:\n{}",
                    lines.join("\n")
                );
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Prints the lines, to explain a failed test.
    #[expect(
        clippy::print_stderr,
        reason = "libtest shows this with the test that failed"
    )]
    pub(super) fn print(&self) {
        for line in self.lines() {
            eprintln!("agent: {line}");
        }
    }

    /// Waits until the agent has closed its streams.
    pub(super) fn wait_closed(&self) {
        assert!(self.closes_within(patience()), "the agent does not end");
    }

    /// Whether all writers of the log exit soon.
    pub(super) fn closes(&self) -> bool {
        self.closes_within(slower(SOON))
    }

    fn closes_within(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.state();
        while state.open > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}
