//! One Event object, sent or queued.

use super::ApiRequest;
use crate::{
    base::time::Timestamp,
    kube_event::{
        Notice, Reason, Regarding,
        object::{self, Series},
    },
};

/// Identity of an Event: a notice with the same key is a repetition. The text is compared by its hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    uid: String,
    pub(super) reason: Reason,
    text_hash: u64,
    pub(super) namespace: String,
    /// The rate limit that it uses: a pod has one for all its reasons, the Node one for each reason.
    pub(super) budget: String,
}

impl Key {
    pub(super) fn of(notice: &Notice) -> Self {
        let uid = notice.regarding.uid();
        let budget = match &notice.regarding {
            Regarding::Pod { .. } => uid.to_owned(),
            Regarding::Node { .. } => format!("{uid}/{}", notice.reason.into_str()),
        };
        let container = notice.container.as_deref().unwrap_or_default();
        Self {
            uid: uid.to_owned(),
            reason: notice.reason,
            text_hash: object::fingerprint(&[container, &notice.note]),
            namespace: notice.regarding.namespace().to_owned(),
            budget,
        }
    }
}

/// Whether the server refuses this Event, as an admission webhook may do for ever, or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    None,
    /// It failed.
    Once,
    /// Afterwards the server accepted another Event of the namespace.
    Suspected,
    /// Then this one failed again.
    Refused,
}

#[derive(Debug)]
pub(super) struct Object {
    namespace: String,
    name: String,
    /// None once the server has the Event.
    notice: Option<Notice>,
    series: Series,
    /// The count that was sent to the server last.
    sent: u32,
    pub(super) seen: Timestamp,
    /// Whether the queue contains it.
    pub(super) waits: bool,
    pub(super) failure: Failure,
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
            failure: Failure::None,
        }
    }

    pub(super) fn repeat(&mut self, now: Timestamp, at_us: u64) {
        self.series.count = self.series.count.saturating_add(1);
        self.series.last_us = self.series.last_us.max(at_us);
        self.seen = now;
    }

    /// The size of its notice.
    pub(super) fn bytes(&self) -> usize {
        self.notice.as_ref().map_or(0, |notice| {
            let names = self.name.len() + self.namespace.len();
            let container = notice.container.as_ref().map_or(0, String::len);
            size_of::<Self>() + names + container + notice.note.len()
        })
    }

    /// Whether the server has the Event.
    pub(super) const fn exists(&self) -> bool {
        self.notice.is_none()
    }

    /// Whether it repeated since the last request.
    pub(super) const fn has_unsent_count(&self) -> bool {
        self.series.count > self.sent
    }

    pub(super) fn send(&mut self, node: &str) -> ApiRequest {
        self.waits = false;
        self.sent = self.series.count;
        let body = match &self.notice {
            Some(notice) => object::created(notice, node, self.series),
            None => object::repeated(self.series),
        };
        ApiRequest {
            create: self.notice.is_some(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            body,
        }
    }

    /// A request for it failed.
    pub(super) fn failed(&mut self) {
        self.failure = match self.failure {
            Failure::None | Failure::Once => Failure::Once,
            Failure::Suspected | Failure::Refused => Failure::Refused,
        };
    }

    /// The server accepted another Event of the namespace.
    pub(super) fn other_accepted(&mut self) {
        if self.failure == Failure::Once {
            self.failure = Failure::Suspected;
        }
    }

    pub(super) fn accepted(&mut self) {
        self.notice = None;
        self.failure = Failure::None;
    }
}
