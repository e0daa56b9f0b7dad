//! Jobs that are not sent yet, with their descriptors.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use usher_core::worker::message::JobId;
use usher_sys::{net::netns::Netns, pods::container::Init, seqpacket};

#[derive(Debug)]
pub(crate) enum Descriptor {
    Init(Arc<Init>),
    Netns(Arc<Netns>),
    Socket(OwnedFd),
}

/// A job that the socket has not taken yet.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) id: JobId,
    pub(super) message: Vec<u8>,
    pub(super) descriptors: Vec<Descriptor>,
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Init(init) => init.pidfd.as_fd(),
            Self::Netns(netns) => netns.as_fd(),
            Self::Socket(fd) => fd.as_fd(),
        }
    }
}

impl Unsent {
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.descriptors.iter().map(AsFd::as_fd).collect()
    }
}

/// Sends a message once the socket has room.
pub(super) async fn send_first(
    socket: &seqpacket::Connection,
    first: Option<&Unsent>,
) -> Result<(), seqpacket::Error> {
    match first {
        None => std::future::pending().await,
        Some(first) => {
            socket
                .send_when_ready(&first.message, &first.descriptors())
                .await
        }
    }
}
