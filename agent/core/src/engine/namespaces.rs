//! The annotations and labels of the Namespaces of this node's pods, requested one by one.
//!
//! This needs no permission to list Namespaces. The engine requests a Namespace when its first pod appears, and again
//! with later pods or lists when the last reply is old. The pods of a Namespace that was never read wait, whatever the
//! error was: the Namespace may opt out. A Namespace that was read before keeps its last values while requests fail.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    base::time::Timestamp, engine::event::NamespaceReply, settings::overrides::NamespaceValues,
};

/// Age at which a new pod causes another request.
const OLD: Duration = Duration::from_secs(30);
/// Age at which any list causes another request.
const TOO_OLD: Duration = Duration::from_secs(240);
/// First wait after a failure; doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest wait after a failure.
const LAST_RETRY: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
pub(crate) struct Namespaces(BTreeMap<String, State>);

#[derive(Debug, Clone, Default)]
struct State {
    values: Option<NamespaceValues>,
    requested: Option<Timestamp>,
    in_flight: bool,
    failures: u32,
    retry: Option<Timestamp>,
}

impl Namespaces {
    /// The values of a Namespace; None while it was never read.
    pub(crate) fn get(&self, name: &str) -> Option<&NamespaceValues> {
        self.0.get(name)?.values.as_ref()
    }

    /// A pod of this Namespace is listed, for the first time if `is_new`. Whether to request the Namespace.
    pub(crate) fn begin_request(&mut self, now: Timestamp, name: &str, is_new: bool) -> bool {
        let state = match self.0.get_mut(name) {
            Some(state) => state,
            None => self.0.entry(name.to_owned()).or_default(),
        };
        let age = state.requested.map(|requested| now.since(requested));
        let due = match (state.retry, age) {
            (Some(retry), _) => retry <= now,
            (None, None) => true,
            (None, Some(age)) => age >= if is_new { OLD } else { TOO_OLD },
        };
        if state.in_flight || !due {
            return false;
        }
        state.in_flight = true;
        state.requested = Some(now);
        state.retry = None;
        true
    }

    /// The time of the next request after a failure.
    pub(crate) fn due(&self, name: &str) -> Option<Timestamp> {
        self.0.get(name)?.retry
    }

    /// Returns whether the values changed.
    pub(crate) fn answered(&mut self, now: Timestamp, name: &str, reply: NamespaceReply) -> bool {
        let Some(state) = self.0.get_mut(name) else {
            return false;
        };
        state.in_flight = false;
        let values = match reply {
            NamespaceReply::Read(values) => {
                state.failures = 0;
                Some(values)
            }
            NamespaceReply::Failed { last } => {
                let wait = FIRST_RETRY.saturating_mul(1 << state.failures.min(16));
                state.failures = state.failures.saturating_add(1);
                state.retry = Some(now + wait.min(LAST_RETRY));
                state.values.clone().or(last)
            }
        };
        let is_changed = state.values != values;
        state.values = values;
        is_changed
    }

    /// Forgets the Namespaces without pods.
    pub(crate) fn retain(&mut self, in_use: impl Fn(&str) -> bool) {
        self.0.retain(|name, state| state.in_flight || in_use(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::new(Duration::from_secs(seconds))
    }

    fn read() -> NamespaceReply {
        NamespaceReply::Read(NamespaceValues::default())
    }

    const FAILED: NamespaceReply = NamespaceReply::Failed { last: None };

    #[test]
    fn requested_once_and_again_when_old() {
        let mut namespaces = Namespaces::default();
        assert!(namespaces.begin_request(at(0), "shop", true));
        assert!(
            !namespaces.begin_request(at(1), "shop", true),
            "one at a time"
        );
        assert!(namespaces.get("shop").is_none());
        assert!(namespaces.answered(at(1), "shop", read()));
        assert!(namespaces.get("shop").is_some());
        assert!(!namespaces.begin_request(at(29), "shop", true));
        assert!(namespaces.begin_request(at(30), "shop", true));
        assert!(!namespaces.answered(at(30), "shop", read()));
        assert!(!namespaces.begin_request(at(269), "shop", false));
        assert!(namespaces.begin_request(at(270), "shop", false));
    }

    #[test]
    fn failed_request_is_retried() {
        let mut namespaces = Namespaces::default();
        namespaces.begin_request(at(0), "shop", true);
        assert!(!namespaces.answered(at(0), "shop", FAILED));
        assert_eq!(namespaces.due("shop"), Some(at(1)));
        assert!(!namespaces.begin_request(at(0), "shop", true));
        assert!(namespaces.begin_request(at(1), "shop", false));
        namespaces.answered(at(1), "shop", FAILED);
        assert_eq!(namespaces.due("shop"), Some(at(3)));
        namespaces.begin_request(at(3), "shop", false);
        assert!(namespaces.answered(at(3), "shop", read()));
        assert_eq!(namespaces.due("shop"), None);
        namespaces.retain(|_name| false);
        assert!(namespaces.get("shop").is_none());
    }

    #[test]
    fn retries_are_at_most_a_minute_apart() {
        let mut namespaces = Namespaces::default();
        let mut now = at(0);
        for _ in 0..20 {
            assert!(namespaces.begin_request(now, "shop", true));
            namespaces.answered(now, "shop", FAILED);
            let due = namespaces.due("shop").unwrap();
            assert!(due.since(now) <= LAST_RETRY);
            now = due;
        }
    }

    #[test]
    fn last_values_apply_while_requests_fail() {
        let opted_out = NamespaceValues {
            annotations: [("usher.dev/quit".to_owned(), "false".to_owned())].into(),
            ..NamespaceValues::default()
        };
        let mut namespaces = Namespaces::default();
        namespaces.begin_request(at(0), "shop", true);
        let last = Some(opted_out.clone());
        let failed = NamespaceReply::Failed { last: last.clone() };
        assert!(namespaces.answered(at(0), "shop", failed));
        assert_eq!(namespaces.get("shop"), last.as_ref());
        assert_eq!(namespaces.due("shop"), Some(at(1)), "retried all the same");
        assert!(namespaces.begin_request(at(1), "shop", false));
        assert!(!namespaces.answered(at(1), "shop", FAILED));
        assert_eq!(namespaces.get("shop"), last.as_ref());
    }
}
