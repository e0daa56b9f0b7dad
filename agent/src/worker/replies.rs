//! The worker's replies to the agent, in order.

use tokio::sync::mpsc;
use usher_core::worker::message::Reply;
use usher_sys::seqpacket::Connection;

/// Replies that may wait until the agent reads them. Tasks wait to add more.
const WAITING: usize = 1024;

#[derive(Debug, Clone)]
pub(super) struct Replies(mpsc::Sender<Reply>);

impl Replies {
    pub(super) fn new() -> (Self, mpsc::Receiver<Reply>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    pub(super) async fn send(&self, reply: Reply) {
        // Fails only when the worker is ending.
        drop(self.0.send(reply).await);
    }
}

/// Sends replies until the agent is gone.
pub(super) async fn forward(mut replies: mpsc::Receiver<Reply>, agent: &Connection) {
    while let Some(reply) = replies.recv().await {
        if agent.send_when_ready(&reply.encode(), &[]).await.is_err() {
            return;
        }
    }
}
