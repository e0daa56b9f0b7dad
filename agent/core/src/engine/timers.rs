//! The next review of each pod.

use std::collections::BTreeMap;

use crate::base::{id::PodUid, time::Timestamp};

/// At most one timer for each pod.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timers(BTreeMap<PodUid, Timestamp>);

impl Timers {
    /// Sets or removes the timer of a pod.
    pub(crate) fn set(&mut self, uid: &PodUid, at: Option<Timestamp>) {
        match at {
            Some(at) => self.0.insert(uid.clone(), at),
            None => self.0.remove(uid),
        };
    }

    pub(crate) fn due(&self, now: Timestamp) -> Vec<PodUid> {
        let due = self.0.iter().filter(|(_uid, at)| **at <= now);
        due.map(|(uid, _at)| uid.clone()).collect()
    }

    /// The first timer after `now`.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.0.values().copied().filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn pod_has_one_deadline() {
        let at = |ms| Timestamp::new(Duration::from_millis(ms));
        let uid = |digit: &str| PodUid::parse(&digit.repeat(32)).unwrap();
        let (one, two) = (uid("1"), uid("2"));
        let mut timers = Timers::default();
        timers.set(&one, Some(at(5)));
        timers.set(&two, Some(at(9)));
        timers.set(&one, Some(at(7)));
        assert_eq!(timers.due(at(6)), []);
        assert_eq!(timers.next(at(0)), Some(at(7)));
        assert_eq!(timers.due(at(9)), [one.clone(), two.clone()]);
        assert_eq!(timers.next(at(7)), Some(at(9)));
        timers.set(&two, None);
        timers.set(&two, None);
        assert_eq!(timers.due(at(9)), [one]);
        assert_eq!(timers.next(at(7)), None);
    }
}
