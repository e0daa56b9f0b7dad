//! When the next request may follow a failed one.

use std::{collections::BTreeMap, time::Duration};

use crate::base::time::Timestamp;

/// The first delay after a failure; it doubles with each further failure.
const FIRST: Duration = Duration::from_millis(500);
/// The longest delay.
const LAST: Duration = Duration::from_secs(30);
/// The longest `Retry-After` that is honoured.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The delays of all Events, and of those in each namespace that fails.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    end: Timestamp,
    /// Whether the last request failed.
    is_failing: bool,
    namespaces: BTreeMap<String, Namespace>,
}

#[derive(Debug, Default)]
struct Namespace {
    failures: u32,
    end: Timestamp,
    /// Whether it failed since the last reply to any namespace.
    since_reply: bool,
}

impl Backoff {
    /// When the next request may begin.
    pub(super) const fn end(&self) -> Timestamp {
        self.end
    }

    /// When the next request for a namespace may begin.
    pub(super) fn end_of(&self, namespace: &str) -> Timestamp {
        let found = self.namespaces.get(namespace);
        found.map_or(self.end, |namespace| namespace.end)
    }

    /// The number of failed requests for a namespace in a row.
    pub(super) fn failures_of(&self, namespace: &str) -> u32 {
        let found = self.namespaces.get(namespace);
        found.map_or(0, |namespace| namespace.failures)
    }

    /// Whether no request succeeded since the last failure.
    pub(super) const fn is_failing(&self) -> bool {
        self.is_failing
    }

    /// A request failed, with the server's `Retry-After` if it sent one.
    pub(super) fn failed(&mut self, now: Timestamp, namespace: &str, after: Option<Duration>) {
        let one = self.namespaces.entry(namespace.to_owned()).or_default();
        one.end = now + delay(one.failures);
        one.failures = one.failures.saturating_add(1);
        one.since_reply = true;
        let failing = self.namespaces.values().filter(|one| one.since_reply);
        let others = u32::try_from(failing.count() - 1).unwrap_or(u32::MAX);
        let after = after.unwrap_or_default().min(MAX_RETRY_AFTER);
        self.end = now + delay(others).max(after);
        self.is_failing = true;
    }

    /// Forgets namespaces, as those whose Events were dropped meanwhile.
    pub(super) fn forget(&mut self, is_unused: impl Fn(&str) -> bool) {
        self.namespaces.retain(|name, _one| !is_unused(name));
    }

    /// The server replied to a request for a namespace.
    pub(super) fn replied(&mut self, namespace: &str) {
        self.namespaces.remove(namespace);
        for one in self.namespaces.values_mut() {
            one.since_reply = false;
        }
        self.is_failing = false;
    }
}

fn delay(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.min(8)).min(LAST)
}
