//! What the Namespaces of this node's pods say, asked for one by one.
//!
//! The right to list all Namespaces is not needed for it: one request when the
//! first pod of a Namespace comes, and another one with later pods or lists
//! when the answer has grown old.

use std::{collections::BTreeMap, time::Duration};

use crate::{base::time::Timestamp, settings::overrides::NamespaceValues};

/// Age at which an answer is asked for again, when a pod comes.
const OLD: Duration = Duration::from_secs(30);
/// Age at which it is asked for again in any case.
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
    /// When it was asked for last.
    asked: Option<Timestamp>,
    in_flight: bool,
    failures: u32,
    retry: Option<Timestamp>,
}

impl Namespaces {
    /// What a Namespace says; None while that is not known.
    pub(crate) fn get(&self, name: &str) -> Option<&NamespaceValues> {
        self.0.get(name)?.values.as_ref()
    }

    /// A pod of this Namespace is listed, for the first time if `is_new`.
    /// Whether the API server is to be asked.
    pub(crate) fn ask(&mut self, now: Timestamp, name: &str, is_new: bool) -> bool {
        let state = match self.0.get_mut(name) {
            Some(state) => state,
            None => self.0.entry(name.to_owned()).or_default(),
        };
        let age = state.asked.map(|asked| now.since(asked));
        let due = match (state.retry, age) {
            (Some(retry), _) => retry <= now,
            (None, None) => true,
            (None, Some(age)) => age >= if is_new { OLD } else { TOO_OLD },
        };
        if state.in_flight || !due {
            return false;
        }
        state.in_flight = true;
        state.asked = Some(now);
        state.retry = None;
        true
    }

    /// When [`Self::ask`] is to be called again after a failure.
    pub(crate) fn due(&self, name: &str) -> Option<Timestamp> {
        self.0.get(name)?.retry
    }

    /// Takes an answer; None where there was none. Whether something changed.
    pub(crate) fn answered(
        &mut self,
        now: Timestamp,
        name: &str,
        values: Option<NamespaceValues>,
    ) -> bool {
        let Some(state) = self.0.get_mut(name) else {
            return false;
        };
        state.in_flight = false;
        let Some(values) = values else {
            let wait = FIRST_RETRY.saturating_mul(1 << state.failures.min(16));
            state.failures = state.failures.saturating_add(1);
            state.retry = Some(now + wait.min(LAST_RETRY));
            return false;
        };
        state.failures = 0;
        let changed = state.values.as_ref() != Some(&values);
        state.values = Some(values);
        changed
    }

    /// Forgets the Namespaces that no pod is in any more.
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

    #[test]
    fn asked_once_and_again_when_old() {
        let mut namespaces = Namespaces::default();
        assert!(namespaces.ask(at(0), "shop", true));
        assert!(!namespaces.ask(at(1), "shop", true), "one at a time");
        assert!(namespaces.get("shop").is_none());
        assert!(namespaces.answered(at(1), "shop", Some(NamespaceValues::default())));
        assert!(namespaces.get("shop").is_some());
        assert!(!namespaces.ask(at(29), "shop", true));
        assert!(namespaces.ask(at(30), "shop", true));
        let same = Some(NamespaceValues::default());
        assert!(!namespaces.answered(at(30), "shop", same));
        assert!(!namespaces.ask(at(269), "shop", false));
        assert!(namespaces.ask(at(270), "shop", false));
    }

    #[test]
    fn a_failure_keeps_what_was_known_and_is_tried_again() {
        let mut namespaces = Namespaces::default();
        namespaces.ask(at(0), "shop", true);
        assert!(!namespaces.answered(at(0), "shop", None));
        assert_eq!(namespaces.due("shop"), Some(at(1)));
        assert!(!namespaces.ask(at(0), "shop", true));
        assert!(namespaces.ask(at(1), "shop", false));
        namespaces.answered(at(1), "shop", None);
        assert_eq!(namespaces.due("shop"), Some(at(3)));
        namespaces.ask(at(3), "shop", false);
        assert!(namespaces.answered(at(3), "shop", Some(NamespaceValues::default())));
        assert_eq!(namespaces.due("shop"), None);
        namespaces.retain(|_name| false);
        assert!(namespaces.get("shop").is_none());
    }
}
