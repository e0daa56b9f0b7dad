//! Closes programs on a thread of its own.
//!
//! The close of a file can take seconds, and a pod determines how long: ext4 then writes a file that was truncated before
//! ([`ext4_release_file`](https://github.com/torvalds/linux/blob/v6.12/fs/ext4/file.c)), and the last close of a deleted
//! file frees it.

use std::{
    os::fd::OwnedFd,
    sync::{
        OnceLock,
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread,
};

use crate::process::capability;

/// Above this number of waiting descriptors the caller closes them itself.
const MOST: usize = 1024;

/// The thread starts with the first descriptor.
#[derive(Debug, Default)]
pub(super) struct Closer(OnceLock<Option<SyncSender<OwnedFd>>>);

impl Closer {
    pub(super) fn close(&self, fd: OwnedFd) {
        let thread = self.0.get_or_init(|| {
            let (sender, descriptors) = sync_channel(MOST);
            let close = move || {
                // It needs none. With its process's a close does the same.
                capability::keep_only(&[]).ok();
                descriptors.into_iter().for_each(drop);
            };
            let started = thread::Builder::new().name("close".to_owned()).spawn(close);
            started.is_ok().then_some(sender)
        });
        match thread.as_ref().map(|thread| thread.try_send(fd)) {
            Some(Err(TrySendError::Full(fd) | TrySendError::Disconnected(fd))) => drop(fd),
            Some(Ok(())) | None => {}
        }
    }
}
