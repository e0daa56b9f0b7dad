//! The quarantine of network namespaces, and the late jobs that are a reason for it.

use std::{collections::BTreeMap, time::Duration};

use super::QuarantineReason;
use crate::base::{
    id::{NetnsId, PodUid},
    time::Timestamp,
};

/// How long the quarantine lasts after the namespace recovered. Doubles each time, up to the second value.
const SHORTEST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3600);
/// More namespaces than a node has pods. The entry that ends first is dropped first.
const MAX_ENTRIES: usize = 1024;

/// How often the deadline of a job is extended while the thread of the job waits for a processor.
pub const THREAD_EXTENSIONS: u8 = 2;

/// A job is stuck if its thread computed for at least this part of its limit: one half.
const STUCK_PART: u32 = 2;
/// A job waits for a processor if its thread computed for less than this part of its limit: one tenth. Most jobs compute
/// for a few milliseconds.
const STARVED_PART: u32 = 10;

/// Why a job has not returned in time.
///
/// A pod's rules run on the thread that sends the packet. A thread that only waits, for a processor, for a lock or
/// for an RCU grace period, is no evidence against its pod: on a busy node every job is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lateness {
    /// The job waits for a processor.
    Starved,
    /// The thread is stuck in the rules of its pod.
    Stuck,
    /// The thread waits for something else, or computes now and then.
    Waits,
}

/// The thread of a job that has not returned in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateThread {
    /// The state in `/proc`; None where it is unknown.
    pub state: Option<char>,
    /// Its processor time since the worker last looked at it, or since the job began.
    pub cpu_time: Duration,
}

impl Lateness {
    /// `thread` is None for a job that has not begun, or has not had its limit since then.
    pub fn of(thread: Option<LateThread>, limit: Duration) -> Self {
        let Some(LateThread { state, cpu_time }) = thread else {
            return Self::Starved;
        };
        match state {
            Some('R') | None if cpu_time >= limit / STUCK_PART => Self::Stuck,
            Some('R') if cpu_time < limit / STARVED_PART => Self::Starved,
            _ => Self::Waits,
        }
    }
}

/// The namespaces that are or were in quarantine.
#[derive(Debug, Default)]
pub struct Quarantine {
    entries: BTreeMap<NetnsId, Entry>,
    /// The pod of each namespace.
    pods: BTreeMap<NetnsId, PodUid>,
}

#[derive(Debug)]
struct Entry {
    reason: QuarantineReason,
    times: u32,
    /// None while a system call is stuck.
    until: Option<Timestamp>,
}

impl Quarantine {
    /// Notes the pod of a namespace. The kernel gives the number of a namespace that has ended to the next one, so
    /// another pod begins without the quarantine of the earlier one. While a system call is stuck, its thread keeps
    /// the namespace.
    pub fn used_by(&mut self, netns: NetnsId, pod: &PodUid) {
        if self.pods.get(&netns) == Some(pod) {
            return;
        }
        let is_other = self.pods.insert(netns, pod.clone()).is_some();
        if self.pods.len() > MAX_ENTRIES {
            // Those in quarantine stay: the next pod with such a namespace has to be known as another one.
            let mut pods = self.pods.keys();
            let first = pods
                .find(|netns| !self.entries.contains_key(netns))
                .copied();
            first.map(|first| self.pods.remove(&first));
        }
        if is_other && !self.is_stuck(netns) {
            self.entries.remove(&netns);
        }
    }

    /// Begins the quarantine of a namespace. Returns whether it was not in quarantine before.
    pub fn begin(&mut self, now: Timestamp, netns: NetnsId, reason: QuarantineReason) -> bool {
        // It lasts until the call has returned, whatever another one finds.
        if reason == QuarantineReason::CostlyRules && self.is_stuck(netns) {
            return false;
        }
        let was_in = self.reason(now, netns).is_some();
        let entry = self.entries.entry(netns).or_insert(Entry {
            reason,
            times: 0,
            until: None,
        });
        entry.reason = reason;
        if !was_in {
            entry.times = entry.times.saturating_add(1);
        }
        entry.until = match reason {
            QuarantineReason::Stuck => None,
            QuarantineReason::CostlyRules => Some(now + time(entry.times)),
        };
        self.forget_one();
        !was_in
    }

    /// The system call that was stuck has returned.
    pub fn recovered(&mut self, now: Timestamp, netns: NetnsId) {
        if let Some(entry) = self.entries.get_mut(&netns)
            && entry.until.is_none()
        {
            entry.until = Some(now + time(entry.times));
        }
    }

    /// A worker has ended: its system calls have ended as well, or can no longer be awaited.
    pub fn worker_ended(&mut self, now: Timestamp) {
        for entry in self.entries.values_mut() {
            entry.until.get_or_insert(now + time(entry.times));
        }
    }

    /// Why the namespace gets no jobs now.
    pub fn reason(&self, now: Timestamp, netns: NetnsId) -> Option<QuarantineReason> {
        let entry = self.entries.get(&netns)?;
        let is_over = entry.until.is_some_and(|until| now >= until);
        (!is_over).then_some(entry.reason)
    }

    fn is_stuck(&self, netns: NetnsId) -> bool {
        let entry = self.entries.get(&netns);
        entry.is_some_and(|entry| entry.until.is_none())
    }

    fn forget_one(&mut self) {
        if self.entries.len() <= MAX_ENTRIES {
            return;
        }
        let first = self
            .entries
            .iter()
            .filter_map(|(netns, entry)| Some((entry.until?, *netns)))
            .min();
        if let Some((_until, netns)) = first {
            self.entries.remove(&netns);
        }
    }
}

fn time(times: u32) -> Duration {
    let doublings = times.saturating_sub(1).min(16);
    SHORTEST.saturating_mul(1 << doublings).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::new(Duration::from_secs(seconds))
    }

    fn netns(ino: u64) -> NetnsId {
        NetnsId { dev: 4, ino }
    }

    #[test]
    fn only_a_thread_that_computes_is_stuck() {
        use Lateness::{Starved, Stuck, Waits};
        let limit = Duration::from_millis(500);
        let cases = [
            ("runs the rules", Some('R'), 1000, Stuck),
            ("runs the rules on a busy node", Some('R'), 250, Stuck),
            ("runs the rules, without /proc", None, 1000, Stuck),
            ("computes now and then", Some('R'), 249, Waits),
            ("computes now and then, less", Some('R'), 50, Waits),
            ("waits for a processor", Some('R'), 49, Starved),
            ("has had no processor", Some('R'), 0, Starved),
            ("waits for an RCU grace period", Some('D'), 3, Waits),
            ("sent much, and waits now", Some('D'), 400, Waits),
            ("waits for a response", Some('S'), 1, Waits),
            ("is stopped", Some('T'), 1000, Waits),
            ("waits, without /proc", None, 1, Waits),
        ];
        for (name, state, milliseconds, lateness) in cases {
            let thread = LateThread {
                state,
                cpu_time: Duration::from_millis(milliseconds),
            };
            assert_eq!(Lateness::of(Some(thread), limit), lateness, "{name}");
        }
        assert_eq!(Lateness::of(None, limit), Starved);
    }

    #[test]
    fn a_stuck_namespace_waits_for_its_recovery_and_a_minute() {
        let mut quarantine = Quarantine::default();
        assert_eq!(quarantine.reason(at(0), netns(1)), None);
        assert!(quarantine.begin(at(1), netns(1), QuarantineReason::Stuck));
        assert!(!quarantine.begin(at(2), netns(1), QuarantineReason::Stuck));
        assert_eq!(
            quarantine.reason(at(9999), netns(1)),
            Some(QuarantineReason::Stuck)
        );
        assert_eq!(quarantine.reason(at(9999), netns(2)), None);
        quarantine.recovered(at(10_000), netns(1));
        assert!(quarantine.reason(at(10_059), netns(1)).is_some());
        assert!(quarantine.reason(at(10_060), netns(1)).is_none());
        // The second time it takes twice as long.
        assert!(quarantine.begin(at(11_000), netns(1), QuarantineReason::Stuck));
        quarantine.recovered(at(11_000), netns(1));
        assert!(quarantine.reason(at(11_119), netns(1)).is_some());
        assert!(quarantine.reason(at(11_120), netns(1)).is_none());
    }

    #[test]
    fn costly_rules_are_checked_again_after_a_minute() {
        let mut quarantine = Quarantine::default();
        assert!(quarantine.begin(at(0), netns(1), QuarantineReason::CostlyRules));
        let costly = Some(QuarantineReason::CostlyRules);
        assert_eq!(quarantine.reason(at(59), netns(1)), costly);
        assert_eq!(quarantine.reason(at(60), netns(1)), None);
        quarantine.recovered(at(60), netns(7));
    }

    #[test]
    fn costly_rules_do_not_end_the_quarantine_of_a_stuck_call() {
        let mut quarantine = Quarantine::default();
        quarantine.begin(at(0), netns(1), QuarantineReason::Stuck);
        assert!(!quarantine.begin(at(1), netns(1), QuarantineReason::CostlyRules));
        assert_eq!(
            quarantine.reason(at(9999), netns(1)),
            Some(QuarantineReason::Stuck)
        );
        quarantine.recovered(at(10_000), netns(1));
        assert!(quarantine.reason(at(10_059), netns(1)).is_some());
        assert!(quarantine.reason(at(10_060), netns(1)).is_none());
    }

    #[test]
    fn another_pod_with_the_same_namespace_id_is_not_in_quarantine() {
        let [first, second] = ["1", "2"].map(|digit| PodUid::parse(&digit.repeat(32)).unwrap());
        let costly = Some(QuarantineReason::CostlyRules);
        let mut quarantine = Quarantine::default();
        quarantine.used_by(netns(1), &first);
        quarantine.begin(at(0), netns(1), QuarantineReason::CostlyRules);
        quarantine.used_by(netns(1), &first);
        assert_eq!(quarantine.reason(at(1), netns(1)), costly);
        quarantine.used_by(netns(2), &second);
        assert_eq!(quarantine.reason(at(1), netns(1)), costly);
        quarantine.used_by(netns(1), &second);
        assert_eq!(quarantine.reason(at(1), netns(1)), None);
        // The thread of a stuck call keeps the namespace, so it cannot be another one.
        quarantine.begin(at(2), netns(1), QuarantineReason::Stuck);
        quarantine.used_by(netns(1), &first);
        assert_eq!(
            quarantine.reason(at(3), netns(1)),
            Some(QuarantineReason::Stuck)
        );
    }

    #[test]
    fn pod_of_a_namespace_in_quarantine_is_remembered() {
        let pod = |number: u64| PodUid::parse(&format!("{number:032}")).unwrap();
        let mut quarantine = Quarantine::default();
        quarantine.used_by(netns(0), &pod(0));
        quarantine.begin(at(0), netns(0), QuarantineReason::CostlyRules);
        for ino in 1..3000 {
            quarantine.used_by(netns(ino), &pod(ino));
        }
        assert_eq!(quarantine.pods.len(), MAX_ENTRIES);
        quarantine.used_by(netns(0), &pod(3000));
        assert_eq!(quarantine.reason(at(1), netns(0)), None);
    }

    #[test]
    fn the_end_of_the_worker_counts_as_recovery() {
        let mut quarantine = Quarantine::default();
        quarantine.begin(at(0), netns(1), QuarantineReason::Stuck);
        quarantine.worker_ended(at(5));
        assert!(quarantine.reason(at(64), netns(1)).is_some());
        assert!(quarantine.reason(at(65), netns(1)).is_none());
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let mut quarantine = Quarantine::default();
        for ino in 0..3000 {
            quarantine.begin(at(ino), netns(ino), QuarantineReason::CostlyRules);
        }
        assert_eq!(quarantine.entries.len(), MAX_ENTRIES);
        let pod = PodUid::parse(&"1".repeat(32)).unwrap();
        for ino in 0..3000 {
            quarantine.used_by(netns(ino), &pod);
        }
        assert_eq!(quarantine.pods.len(), MAX_ENTRIES);
        assert!(quarantine.reason(at(3000), netns(2999)).is_some());
        let time = time(u32::MAX);
        assert_eq!(time, LONGEST);
    }
}
