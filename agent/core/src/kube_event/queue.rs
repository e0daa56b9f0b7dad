//! The queue of Events for the API server: order, rate limits and retries.
//!
//! An Event that repeats within ten minutes increases the count of the existing object. A pod may send 25 Events at
//! once and then one every 5 s, the node 50 and then 10 a second: when 250 Jobs end together, all their Events are sent
//! within half a minute. The queue is bounded. Over a limit it drops an Event of the namespace that has the most of them:
//! the oldest that is not a warning. It reports the number of dropped Events once the server replies again.
//!
//! One request is in flight at a time. A transient failure is retried with an exponential backoff. It delays the other
//! Events of the same namespace, because an admission webhook or a missing permission fails all of them. One that fails
//! before and after the server accepts another one of its namespace is sent after the others. Other namespaces wait
//! longer only if several fail in a row.

mod backoff;
mod budget;
mod object;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde_json::Value;

use self::{
    backoff::Backoff,
    budget::{Bucket, Rate},
    object::{Failure, Key, Object},
};
use super::{EventType, Notice};
use crate::base::time::Timestamp;

const LIMITS: Limits = Limits {
    waiting: 1024,
    bytes: 1024 * 1024,
    objects: 2048,
};
/// How long a sent Event is remembered after its last repetition.
const WINDOW: Duration = Duration::from_micros(super::object::WINDOW_US);
const POD: Rate = Rate::new(25, Duration::from_secs(5));
const NODE: Rate = Rate::new(50, Duration::from_millis(100));
/// After so many failures in a row in a namespace, another Event of it is sent next.
const FIRST_TRIES: u32 = 5;
/// Dropped Events are reported at most this often.
const DROP_REPORT_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
struct Limits {
    waiting: usize,
    /// Bytes of all unsent Events.
    bytes: usize,
    /// Objects that are remembered, so that a repetition does not create a second one.
    objects: usize,
}

/// Events that are queued, and those that were sent recently.
#[derive(Debug)]
pub struct Queue {
    node: String,
    limits: Limits,
    objects: BTreeMap<Key, Object>,
    /// The objects with something to send, oldest first, but for those that failed often.
    waiting: VecDeque<Key>,
    /// The size of the notices in `objects`.
    bytes: usize,
    in_flight: Option<Key>,
    node_budget: Bucket,
    pod_budgets: BTreeMap<String, Bucket>,
    backoff: Backoff,
    dropped: u64,
    dropped_reported: u64,
    dropped_reported_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ApiRequest {
    /// Create the Event; otherwise `body` is a merge patch of the existing one.
    pub create: bool,
    pub namespace: String,
    pub name: String,
    pub body: Value,
}

/// The next step of the sender.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Send this request and report its result to [`Queue::complete`].
    Send(ApiRequest),
    /// Wait until this moment or the next offer.
    At(Timestamp),
    /// Wait for the next offer or result.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiResult {
    /// The Event exists, from this or from an earlier attempt.
    Accepted,
    /// The Event, or the namespace of the object it regards, is gone.
    Gone,
    Rejected,
    /// A transient error, with the server's `Retry-After` if it sent one.
    Retry(Option<Duration>),
}

impl Queue {
    pub fn new(node: String) -> Self {
        Self::with(node, LIMITS)
    }

    fn with(node: String, limits: Limits) -> Self {
        Self {
            node,
            limits,
            objects: BTreeMap::new(),
            waiting: VecDeque::new(),
            bytes: 0,
            in_flight: None,
            node_budget: Bucket::default(),
            pod_budgets: BTreeMap::new(),
            backoff: Backoff::default(),
            dropped: 0,
            dropped_reported: 0,
            dropped_reported_at: None,
        }
    }

    /// Adds an Event, or counts a repetition.
    pub fn offer(&mut self, now: Timestamp, notice: Notice) {
        self.forget(now);
        let key = Key::of(&notice);
        if let Some(object) = self.objects.get_mut(&key) {
            object.repeat(now, notice.at_us);
            if !object.waits && self.in_flight.as_ref() != Some(&key) {
                object.waits = true;
                self.waiting.push_back(key);
            }
        } else {
            let object = Object::new(now, notice);
            self.bytes += object.bytes();
            self.objects.insert(key.clone(), object);
            self.waiting.push_back(key);
        }
        self.shed();
    }

    /// Counts Events that were dropped before they reached the queue.
    pub fn add_dropped(&mut self, count: u64) {
        self.dropped = self.dropped.saturating_add(count);
    }

    pub fn next(&mut self, now: Timestamp) -> Next {
        if self.in_flight.is_some() || self.waiting.is_empty() {
            return Next::Nothing;
        }
        let begin = self.backoff.end().max(self.node_budget.ready(now, NODE));
        let (pod_budgets, backoff, objects) = (&self.pod_budgets, &self.backoff, &self.objects);
        let ready = |key: &Key| {
            let bucket = pod_budgets.get(&key.budget);
            let ready = bucket.map_or(now, |bucket| bucket.ready(now, POD));
            ready.max(begin).max(backoff.end_of(&key.namespace))
        };
        let events = self.waiting.iter().enumerate();
        let found = events
            .filter(|(_at, key)| ready(key) <= now)
            .min_by_key(|(_at, key)| {
                let object = objects.get(key);
                let is_refused = object.is_some_and(|it| it.failure == Failure::Refused);
                (backoff.failures_of(&key.namespace), is_refused)
            });
        let found = found.map(|(at, _key)| at);
        let Some(key) = found.and_then(|at| self.waiting.remove(at)) else {
            let soonest = self.waiting.iter().map(ready).min();
            return soonest.map_or(Next::Nothing, Next::At);
        };
        let Some(object) = self.objects.get_mut(&key) else {
            return Next::At(now);
        };
        self.node_budget.take(now, NODE);
        let bucket = self.pod_budgets.entry(key.budget.clone()).or_default();
        bucket.take(now, POD);
        self.pod_budgets
            .retain(|_budget, bucket| !bucket.is_full(now));
        self.in_flight = Some(key);
        Next::Send(object.send(&self.node))
    }

    /// Applies the result of the request that [`Queue::next`] returned.
    pub fn complete(&mut self, now: Timestamp, result: ApiResult) {
        let Some(key) = self.in_flight.take() else {
            return;
        };
        let Some(object) = self.objects.get_mut(&key) else {
            return;
        };
        if let ApiResult::Retry(after) = result {
            object.waits = true;
            object.failed();
            // The server may refuse only this one.
            if self.backoff.failures_of(&key.namespace) < FIRST_TRIES {
                self.waiting.push_front(key.clone());
            } else {
                self.waiting.push_back(key.clone());
            }
            // A failed request does not count against the rate limits.
            self.node_budget.give_back(NODE);
            if let Some(bucket) = self.pod_budgets.get_mut(&key.budget) {
                bucket.give_back(POD);
            }
            let waiting = &self.waiting;
            self.backoff
                .forget(|name| !waiting.iter().any(|key| key.namespace == name));
            self.backoff.failed(now, &key.namespace, after);
            self.shed();
            return;
        }
        self.backoff.replied(&key.namespace);
        self.bytes -= object.bytes();
        if result == ApiResult::Accepted {
            object.accepted();
            let is_repeated = object.has_unsent_count();
            object.waits |= is_repeated;
            for other in &self.waiting {
                if other.namespace == key.namespace
                    && let Some(object) = self.objects.get_mut(other)
                {
                    object.other_accepted();
                }
            }
            if is_repeated {
                self.waiting.push_back(key);
                self.shed();
            }
        } else {
            self.objects.remove(&key);
        }
    }

    /// The number of unsent Events.
    pub fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.in_flight.is_some())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of Events that were dropped since the agent's start.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The number of Events dropped since the last report, if the server replies and a report is due.
    pub fn take_dropped_report(&mut self, now: Timestamp) -> Option<u64> {
        let recently = |reported: Timestamp| now < reported + DROP_REPORT_INTERVAL;
        if self.backoff.is_failing()
            || self.dropped == self.dropped_reported
            || self.dropped_reported_at.is_some_and(recently)
        {
            return None;
        }
        self.dropped_reported_at = Some(now);
        let dropped = self.dropped - self.dropped_reported;
        self.dropped_reported = self.dropped;
        Some(dropped)
    }

    /// Drops Events over the limits.
    fn shed(&mut self) {
        let Limits { waiting, bytes, .. } = self.limits;
        while self.waiting.len() > waiting || self.bytes > bytes {
            let Some(key) = self.next_to_drop().and_then(|at| self.waiting.remove(at)) else {
                // The only one left is in flight.
                return;
            };
            self.dropped = self.dropped.saturating_add(1);
            let Some(object) = self.objects.get_mut(&key) else {
                continue;
            };
            object.waits = false;
            if !object.exists() {
                self.bytes -= object.bytes();
                self.objects.remove(&key);
            }
        }
    }

    /// The oldest Event that is not a warning, of the namespace with the most Events; its oldest warning if it has no other.
    fn next_to_drop(&self) -> Option<usize> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for key in &self.waiting {
            *counts.entry(&key.namespace).or_default() += 1;
        }
        let (most, _count) = counts
            .into_iter()
            .max_by_key(|(_namespace, count)| *count)?;
        let mut events = self.waiting.iter().enumerate();
        let mut of_it = events.by_ref().filter(|(_at, key)| key.namespace == most);
        let (oldest, key) = of_it.next()?;
        let normal = |key: &Key| key.reason.fields().event_type == EventType::Normal;
        if normal(key) {
            return Some(oldest);
        }
        let found = of_it.find(|(_at, key)| normal(key));
        Some(found.map_or(oldest, |(at, _key)| at))
    }

    /// Forgets objects that were sent long ago, and the oldest idle ones over the limit.
    fn forget(&mut self, now: Timestamp) {
        let in_flight = self.in_flight.clone();
        let needed = |key: &Key, object: &Object| object.waits || in_flight.as_ref() == Some(key);
        self.objects
            .retain(|key, object| needed(key, object) || now.since(object.seen) < WINDOW);
        while self.objects.len() >= self.limits.objects {
            let idle = self
                .objects
                .iter()
                .filter(|(key, object)| !needed(key, object));
            let oldest = idle.min_by_key(|(_key, object)| object.seen);
            let Some(key) = oldest.map(|(key, _object)| key.clone()) else {
                return;
            };
            self.objects.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests;
