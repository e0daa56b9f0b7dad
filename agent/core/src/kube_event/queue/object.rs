//! One Event in the API, or about to be there.

use super::Order;
use crate::{
    base::time::Timestamp,
    kube_event::{
        Notice, Reason, Regarding,
        object::{self, Series},
    },
};

/// What makes two tellings the same. Within one pod a hash does for what they say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    uid: String,
    pub(super) reason: Reason,
    said: u64,
    /// Whose budget it takes from: a pod's is for all of its reasons, on the Node each has its own.
    pub(super) budget: String,
}

impl Key {
    pub(super) fn of(notice: &Notice) -> Self {
        let uid = notice.regarding.uid();
        let budget = match &notice.regarding {
            Regarding::Pod { .. } => uid.to_owned(),
            Regarding::Node { .. } => format!("{uid}/{}", notice.reason.as_str()),
        };
        let container = notice.container.as_deref().unwrap_or_default();
        Self {
            uid: uid.to_owned(),
            reason: notice.reason,
            said: object::fingerprint(&[container, &notice.note]),
            budget,
        }
    }
}

#[derive(Debug)]
pub(super) struct Object {
    namespace: String,
    name: String,
    /// Until the server has it.
    notice: Option<Notice>,
    series: Series,
    /// How often the server knows, or is being told now, that it was told.
    sent: u32,
    /// When it was told last.
    pub(super) seen: Timestamp,
    /// It is in the queue.
    pub(super) waits: bool,
}

impl Object {
    pub(super) fn new(now: Timestamp, notice: Notice) -> Self {
        Self {
            namespace: notice.regarding.namespace().to_owned(),
            name: object::name(&notice),
            series: Series {
                count: 1,
                last_us: notice.at_us,
            },
            notice: Some(notice),
            sent: 0,
            seen: now,
            waits: true,
        }
    }

    /// It was told again.
    pub(super) fn again(&mut self, now: Timestamp, at_us: u64) {
        self.series.count = self.series.count.saturating_add(1);
        self.series.last_us = self.series.last_us.max(at_us);
        self.seen = now;
    }

    /// What its notice takes.
    pub(super) fn bytes(&self) -> usize {
        self.notice.as_ref().map_or(0, |notice| {
            let names = self.name.len() + self.namespace.len();
            let container = notice.container.as_ref().map_or(0, String::len);
            size_of::<Self>() + names + container + notice.note.len()
        })
    }

    /// Whether the server has it.
    pub(super) const fn exists(&self) -> bool {
        self.notice.is_none()
    }

    /// Whether it was told more often than the server knows.
    pub(super) const fn has_more(&self) -> bool {
        self.series.count > self.sent
    }

    pub(super) fn send(&mut self, node: &str) -> Order {
        self.waits = false;
        self.sent = self.series.count;
        let body = match &self.notice {
            Some(notice) => object::created(notice, node, self.series),
            None => object::repeated(self.series),
        };
        Order {
            create: self.notice.is_some(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            body,
        }
    }

    pub(super) fn taken(&mut self) {
        self.notice = None;
    }
}
