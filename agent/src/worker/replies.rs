//! The worker's replies to the agent, in order.

use tokio::sync::mpsc;
use usher_core::worker::message::Reply;
use usher_sys::seqpacket::Connection;

/// Capacity of the queue of replies. Tasks wait while it is full.
const WAITING: usize = 1024;

#[derive(Debug, Clone)]
pub(super) struct Replies(mpsc::Sender<Reply>);

impl Replies {
    pub(super) fn new() -> (Self, mpsc::Receiver<Reply>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    pub(super) async fn send(&self, reply: Reply) {
        // Fails only during the worker's shutdown.
        drop(self.0.send(reply).await);
    }
}

/// Sends replies until the agent exits.
pub(super) async fn forward(mut replies: mpsc::Receiver<Reply>, agent: &Connection) {
    while let Some(reply) = replies.recv().await {
        if agent.send_when_ready(&reply.encode(), &[]).await.is_err() {
            return;
        }
    }
}
