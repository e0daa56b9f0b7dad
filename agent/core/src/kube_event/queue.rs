//! What is sent to the API server, and when.
//!
//! What is told again within ten minutes is counted on the object that is there already. A pod may have
//! 25 Events at once and one in 5 s from then on, the node 50 and 10 in a second: 250 Jobs that end
//! together all have theirs within half a minute. What has to wait is bounded; beyond it the oldest that
//! is not a warning goes first, and that something was lost is told when the server answers again.
//!
//! One request at a time; one that fails for a reason that may pass is tried again, later and later.

mod budget;
mod object;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde_json::Value;

use self::{
    budget::{Bucket, Rate},
    object::{Key, Object},
};
use super::{Importance, Notice};
use crate::base::time::Timestamp;

/// How much is kept.
const LIMITS: Limits = Limits {
    waiting: 1024,
    bytes: 1024 * 1024,
    known: 2048,
};
/// How long they are known for after they were told last.
const WINDOW: Duration = Duration::from_micros(super::object::WINDOW_US);
/// What one pod may cause.
const POD: Rate = Rate::new(25, Duration::from_secs(5));
/// What all of the node may.
const NODE: Rate = Rate::new(50, Duration::from_millis(100));
/// First wait after a failure, doubled each time.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// Losses are told at most this often.
const TIDINGS: Duration = Duration::from_secs(60);
/// Longest wait, and the longest that a server can ask for.
const LAST_RETRY: Duration = Duration::from_secs(30);
const LONGEST_ASKED: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Objects that may wait to be sent.
    waiting: usize,
    /// Bytes of what they say.
    bytes: usize,
    /// Objects that are known, so that what is told again is not told anew.
    known: usize,
}

/// What is to be told, and what was.
#[derive(Debug)]
pub struct Queue {
    node: String,
    limits: Limits,
    objects: BTreeMap<Key, Object>,
    /// Those of them that have something to send, the oldest first.
    waiting: VecDeque<Key>,
    /// What the notices in `objects` take.
    bytes: usize,
    in_flight: Option<Key>,
    of_node: Bucket,
    of_pods: BTreeMap<String, Bucket>,
    failures: u32,
    not_before: Timestamp,
    /// Lost in all.
    dropped: u64,
    /// Lost and told, and when last.
    told: u64,
    told_at: Option<Timestamp>,
}

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// Make it; else it is there, and this is a merge patch of it.
    pub create: bool,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The document.
    pub body: Value,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// This, and tell what came of it.
    Send(Order),
    /// Nothing before this moment, unless something is offered.
    At(Timestamp),
    /// Nothing, unless something is offered or answered.
    Nothing,
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is there, from this or from an earlier attempt.
    Taken,
    /// What it is about is gone.
    Gone,
    /// The server will never take it.
    Refused,
    /// It may take it later, and may have said when.
    Later(Option<Duration>),
}

impl Queue {
    /// Nothing is to be told by this node yet.
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
            of_node: Bucket::default(),
            of_pods: BTreeMap::new(),
            failures: 0,
            not_before: Timestamp::default(),
            dropped: 0,
            told: 0,
            told_at: None,
        }
    }

    /// Takes something in.
    pub fn offer(&mut self, now: Timestamp, notice: Notice) {
        self.forget(now);
        let key = Key::of(&notice);
        if let Some(object) = self.objects.get_mut(&key) {
            object.again(now, notice.at_us);
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

    /// Something was lost before it could be offered.
    pub fn lost(&mut self, count: u64) {
        self.dropped = self.dropped.saturating_add(count);
    }

    /// What is to be done now.
    pub fn next(&mut self, now: Timestamp) -> Next {
        if self.in_flight.is_some() || self.waiting.is_empty() {
            return Next::Nothing;
        }
        let begin = self.not_before.max(self.of_node.ready(now, NODE));
        if begin > now {
            return Next::At(begin);
        }
        let of_pods = &self.of_pods;
        let ready = |key: &Key| {
            let bucket = of_pods.get(&key.budget);
            bucket.map_or(now, |bucket| bucket.ready(now, POD))
        };
        let found = self.waiting.iter().position(|key| ready(key) <= now);
        let Some(key) = found.and_then(|at| self.waiting.remove(at)) else {
            let soonest = self.waiting.iter().map(ready).min();
            return soonest.map_or(Next::Nothing, Next::At);
        };
        let Some(object) = self.objects.get_mut(&key) else {
            return Next::At(now);
        };
        self.of_node.take(now, NODE);
        let bucket = self.of_pods.entry(key.budget.clone()).or_default();
        bucket.take(now, POD);
        self.of_pods.retain(|_budget, bucket| !bucket.is_full(now));
        self.in_flight = Some(key);
        Next::Send(object.send(&self.node))
    }

    /// Takes what came of the request that [`Queue::next`] gave.
    pub fn answered(&mut self, now: Timestamp, answer: Answer) {
        let Some(key) = self.in_flight.take() else {
            return;
        };
        let Some(object) = self.objects.get_mut(&key) else {
            return;
        };
        if let Answer::Later(after) = answer {
            object.waits = true;
            self.waiting.push_front(key.clone());
            // It was not the pod's fault.
            self.of_node.give_back(NODE);
            if let Some(bucket) = self.of_pods.get_mut(&key.budget) {
                bucket.give_back(POD);
            }
            let delay = FIRST_RETRY.saturating_mul(1 << self.failures.min(8));
            let asked = after.unwrap_or_default().min(LONGEST_ASKED);
            self.not_before = now + delay.min(LAST_RETRY).max(asked);
            self.failures = self.failures.saturating_add(1);
            self.shed();
            return;
        }
        self.failures = 0;
        self.bytes -= object.bytes();
        if answer == Answer::Taken {
            object.taken();
            if object.has_more() {
                object.waits = true;
                self.waiting.push_back(key);
                self.shed();
            }
        } else {
            self.objects.remove(&key);
        }
    }

    /// How many wait to be sent.
    pub fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.in_flight.is_some())
    }

    /// Whether nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many were lost in all.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many were lost since this was told last, where the server answers again and it is time to say so.
    pub fn losses(&mut self, now: Timestamp) -> Option<u64> {
        let recently = |told: Timestamp| now < told + TIDINGS;
        if self.failures > 0 || self.dropped == self.told || self.told_at.is_some_and(recently) {
            return None;
        }
        self.told_at = Some(now);
        let lost = self.dropped - self.told;
        self.told = self.dropped;
        Some(lost)
    }

    /// Drops what is too much.
    fn shed(&mut self) {
        let Limits { waiting, bytes, .. } = self.limits;
        while self.waiting.len() > waiting || self.bytes > bytes {
            let normal = |key: &Key| key.reason.importance() == Importance::Normal;
            let oldest = self.waiting.iter().position(normal).unwrap_or(0);
            let Some(key) = self.waiting.remove(oldest) else {
                // All that there is is on its way.
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

    /// Forgets what was told long ago, and of the rest what is too much.
    fn forget(&mut self, now: Timestamp) {
        let in_flight = self.in_flight.clone();
        let needed = |key: &Key, object: &Object| object.waits || in_flight.as_ref() == Some(key);
        self.objects
            .retain(|key, object| needed(key, object) || now.since(object.seen) < WINDOW);
        while self.objects.len() >= self.limits.known {
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
