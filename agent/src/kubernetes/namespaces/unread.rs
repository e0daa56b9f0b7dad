//! The Namespaces whose last request failed, for `usher check` and an Event of the Node.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use usher_core::kube_event::NodeCondition;

use crate::telemetry::health::UnreadNamespace;

/// Consecutive failures before an Event. Fewer occur when an API server has just started and rejects every request.
const WORTH_AN_EVENT: u32 = 3;
/// The engine retries a Namespace that is in use within 60 s, so an older failure belongs to a Namespace without pods.
const STALE: Duration = Duration::from_secs(150);

/// The failing requests, by Namespace.
#[derive(Debug, Default)]
pub(super) struct Unread {
    failing: BTreeMap<String, Failing>,
    /// Whether the Event of the current failures was sent.
    is_reported: bool,
}

#[derive(Debug)]
struct Failing {
    error: String,
    at: Instant,
    failures: u32,
    has_last_values: bool,
}

impl Failing {
    fn until(&self) -> Instant {
        self.at + STALE
    }
}

impl Unread {
    /// Returns whether the previous request for this Namespace had failed.
    pub(super) fn succeeded(&mut self, now: Instant, name: &str) -> bool {
        let was_failing = self.failing.remove(name).is_some();
        self.forget_stale(now);
        was_failing
    }

    /// Returns the number of failures in a row, and the condition to report, if any.
    pub(super) fn failed(
        &mut self,
        now: Instant,
        name: &str,
        error: &str,
        has_last_values: bool,
    ) -> (u32, Option<NodeCondition>) {
        self.forget_stale(now);
        let failing = self.failing.entry(name.to_owned());
        let failing = failing.or_insert_with(|| Failing {
            error: String::new(),
            at: now,
            failures: 0,
            has_last_values,
        });
        error.clone_into(&mut failing.error);
        failing.at = now;
        failing.failures += 1;
        failing.has_last_values = has_last_values;
        let failures = failing.failures;
        let is_due = failures >= WORTH_AN_EVENT && !self.is_reported;
        self.is_reported |= is_due;
        let condition = is_due.then(|| NodeCondition::NamespaceReadFailed {
            name: name.to_owned(),
            error: error.to_owned(),
            has_last_values,
        });
        (failures, condition)
    }

    fn forget_stale(&mut self, now: Instant) {
        self.failing.retain(|_name, failing| now < failing.until());
        self.is_reported &= !self.failing.is_empty();
    }

    pub(super) fn lines(&self) -> Vec<UnreadNamespace> {
        let line = |(name, failing): (&String, &Failing)| {
            let effect = effect(failing.has_last_values);
            UnreadNamespace {
                line: format!("{name} ({effect}): {}", failing.error),
                until: failing.until(),
            }
        };
        self.failing.iter().map(line).collect()
    }
}

/// The consequence for the pods of a Namespace that cannot be read.
pub(super) const fn effect(has_last_values: bool) -> &'static str {
    if has_last_values {
        "its last known annotations apply"
    } else {
        "its pods wait until it can be read"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lasting_failure_is_reported_once() {
        let mut unread = Unread::default();
        let now = Instant::now();
        let mut report = |name| unread.failed(now, name, "forbidden", false).1;
        assert_eq!([report("shop"), report("shop")], [None, None]);
        assert!(report("shop").is_some());
        let more = [report("shop"), report("a"), report("a"), report("a")];
        assert_eq!(more, [None, None, None, None]);
        let mut read = |name| unread.succeeded(now, name);
        assert!(read("shop") && read("a") && !read("a"));
        unread.failed(now, "shop", "forbidden", false);
        unread.failed(now, "shop", "forbidden", false);
        let (failures, condition) = unread.failed(now, "shop", "forbidden", false);
        assert!(failures == 3 && condition.is_some(), "another failure");
    }

    #[test]
    fn namespace_without_pods_is_forgotten() {
        let mut unread = Unread::default();
        let now = Instant::now();
        unread.failed(now, "gone", "forbidden", false);
        unread.failed(now + STALE, "shop", "timeout", true);
        let line = "shop (its last known annotations apply): timeout";
        let shown = unread.lines().into_iter().map(|unread| unread.line);
        assert_eq!(shown.collect::<Vec<_>>(), [line]);
    }

    #[test]
    fn success_of_another_namespace_forgets_one_without_pods() {
        let mut unread = Unread::default();
        let now = Instant::now();
        for _ in 0..WORTH_AN_EVENT {
            unread.failed(now, "gone", "forbidden", false);
        }
        assert!(!unread.succeeded(now + STALE / 2, "shop"));
        assert_eq!(unread.lines().len(), 1);
        assert!(!unread.succeeded(now + STALE, "shop"));
        assert_eq!(unread.lines(), []);
        assert!(!unread.is_reported, "the next failure has an Event");
    }
}
