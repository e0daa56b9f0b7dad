//! The runtime's commands that send stop signals, observed without a delay: a
//! [fanotify(7)](https://man7.org/linux/man-pages/man7/fanotify.7.html) group with `FAN_OPEN`, which notifies and asks for no
//! permission.
//!
//! A command opens the [state](super::runtime_state) of its container first. It ends within milliseconds, so its command line
//! may be gone when the notification is read. Then it counts as one that may have sent a stop signal.
//!
//! A thread of its own reads the command lines. The process may have ended and its pid may belong to a process of a pod, which
//! can delay the read of its command line for as long as it likes. Then stop signals are not observed any more, and nothing
//! else waits.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    thread,
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::fanotify::{Fanotify, FanotifyEvent},
    unistd::pipe2,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use usher_core::{
    base::id::{ContainerId, Pid},
    linger::stopped_container,
};

use super::{
    fanotify::{self, Group, Mark, call, failed},
    runtime_state,
};
use crate::process::capability;

/// Commands that were observed and not yet handled. Further ones are lost.
const PENDING: usize = 1024;

#[derive(Debug)]
pub struct StopCommands {
    group: Group,
    observed: Receiver<Result<ContainerId, fanotify::Error>>,
    /// The thread ends when this end of the pipe is closed.
    _running: OwnedFd,
}

impl StopCommands {
    /// Needs `CAP_SYS_ADMIN`.
    pub fn open() -> Result<Self, fanotify::Error> {
        let group = Group::for_notifications()?;
        let (ended, running) = pipe2(OFlag::O_CLOEXEC).map_err(failed("pipe2"))?;
        let (sender, observed) = channel(PENDING);
        let notifications = group.notifications();
        thread::Builder::new()
            .name("stop-commands".to_owned())
            .spawn(move || read(&notifications, &ended, &sender))
            .map_err(|source| fanotify::Error::Call {
                call: "pthread_create",
                source,
            })?;
        Ok(Self {
            group,
            observed,
            _running: running,
        })
    }

    /// Observes the container with this directory of its state.
    pub fn watch(&self, directory: BorrowedFd<'_>) -> Result<(), fanotify::Error> {
        self.group.mark(Mark::Directory, directory)
    }

    /// Ends that; a directory that is not observed is no error.
    pub fn unwatch(&self, directory: BorrowedFd<'_>) -> Result<(), fanotify::Error> {
        self.group.unmark(Mark::Directory, directory)
    }

    /// Waits for a command that has probably sent a stop signal to this container. The future may be dropped at any time.
    ///
    /// # Errors
    /// [`fanotify::Error`]. No further command is observed after it.
    pub async fn next(&mut self) -> Result<ContainerId, fanotify::Error> {
        let closed = || fanotify::Error::Call {
            call: "read",
            source: io::ErrorKind::BrokenPipe.into(),
        };
        self.observed.recv().await.unwrap_or_else(|| Err(closed()))
    }
}

/// Reads notifications until the other end of the pipe is closed, or an error occurs.
fn read(
    fanotify: &Fanotify,
    ended: &OwnedFd,
    sender: &Sender<Result<ContainerId, fanotify::Error>>,
) {
    // The thread needs none, and works as well with those that cannot be dropped.
    capability::keep_only(&[]).ok();
    loop {
        let mut polled = [
            PollFd::new(fanotify.as_fd(), PollFlags::POLLIN),
            PollFd::new(ended.as_fd(), PollFlags::POLLIN),
        ];
        let result = poll(&mut polled, PollTimeout::NONE).and_then(|_ready| {
            if polled[1].any() == Some(true) {
                return Ok(None);
            }
            fanotify.read_events().map(Some)
        });
        match result {
            Ok(Some(events)) => {
                for container in events.iter().filter_map(stopped) {
                    // What does not fit is not reported.
                    sender.try_send(Ok(container)).ok();
                }
            }
            Ok(None) => return,
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => {
                sender.blocking_send(Err(call("read", errno))).ok();
                return;
            }
        }
    }
}

/// The container to which a command has probably sent a stop signal.
fn stopped(event: &FanotifyEvent) -> Option<ContainerId> {
    let command_line = runtime_state::command_line(Pid(event.pid()));
    if !command_line.is_empty() {
        return stopped_container(&command_line);
    }
    let opened = format!("/proc/self/fd/{}", event.fd()?.as_raw_fd());
    let opened = std::fs::read_link(opened).ok()?;
    let directory = opened.parent()?.file_name()?.to_str()?;
    ContainerId::parse(directory).ok()
}
