//! The next review of each pod.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{id::PodUid, time::Timestamp};

/// At most one timer for each pod.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timers {
    by_time: BTreeSet<(Timestamp, PodUid)>,
    by_pod: BTreeMap<PodUid, Timestamp>,
}

impl Timers {
    /// Sets or removes the timer of a pod.
    pub(crate) fn set(&mut self, uid: &PodUid, at: Option<Timestamp>) {
        let before = match at {
            Some(at) => self.by_pod.insert(uid.clone(), at),
            None => self.by_pod.remove(uid),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.by_time.remove(&(before, uid.clone()));
        }
        if let Some(at) = at {
            self.by_time.insert((at, uid.clone()));
        }
    }

    pub(crate) fn due(&self, now: Timestamp) -> Vec<PodUid> {
        self.by_time
            .iter()
            .take_while(|(at, _uid)| *at <= now)
            .map(|(_at, uid)| uid.clone())
            .collect()
    }

    /// The first timer after `now`.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let mut moments = self.by_time.iter().map(|(at, _uid)| *at);
        moments.find(|at| *at > now)
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
