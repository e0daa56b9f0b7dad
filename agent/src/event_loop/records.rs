//! Queue of decisions for the recorder.
//!
//! The event loop sends them only when it is idle, so that a request that follows an exit never waits for a log line.
//! The queue stays short: while the service thread is stuck, no pod list arrives, so each known pod has only a few
//! decisions.

use std::collections::VecDeque;

use tokio::sync::mpsc::{self, Permit, error::TrySendError};

use crate::telemetry::decision_log::Record;

#[derive(Debug)]
pub(super) struct Records {
    queue: VecDeque<Record>,
    sender: mpsc::Sender<Record>,
}

impl Records {
    pub(super) const fn new(sender: mpsc::Sender<Record>) -> Self {
        Self {
            queue: VecDeque::new(),
            sender,
        }
    }

    pub(super) fn push(&mut self, record: Record) {
        self.queue.push_back(record);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn can_send(&self) -> bool {
        !self.queue.is_empty() && self.sender.capacity() > 0
    }

    pub(super) fn sender(&self) -> mpsc::Sender<Record> {
        self.sender.clone()
    }

    /// Sends as many decisions as the channel has room for.
    pub(super) fn send(&mut self) {
        while let Some(record) = self.queue.pop_front() {
            if let Err(TrySendError::Full(record)) = self.sender.try_send(record) {
                self.queue.push_front(record);
                break;
            }
        }
    }

    pub(super) fn send_with(&mut self, permit: Permit<'_, Record>) {
        if let Some(record) = self.queue.pop_front() {
            permit.send(record);
        }
    }

    /// Sends all remaining decisions.
    pub(super) async fn finish(&mut self) {
        for record in self.queue.drain(..) {
            // Fails only when the recorder has ended.
            drop(self.sender.send(record).await);
        }
    }
}
