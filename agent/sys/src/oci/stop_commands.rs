//! The runtime's commands that send stop signals, observed without a delay: a
//! [fanotify(7)](https://man7.org/linux/man-pages/man7/fanotify.7.html) group with `FAN_OPEN`, which notifies and asks for no
//! permission.
//!
//! A command opens the [state](super::runtime_state) of its container first. It ends within milliseconds, so its command line
//! may be gone when the notification is read. Then it counts as one that may have sent a stop signal.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::AT_FDCWD,
    sys::fanotify::{EventFFlags, Fanotify, FanotifyEvent, InitFlags, MarkFlags, MaskFlags},
};
use tokio::io::unix::AsyncFd;
use usher_core::{
    base::id::{ContainerId, Pid},
    linger::StopCommand,
};

use super::{
    fanotify::{self, call, failed},
    runtime_state,
};
use crate::pods::readiness;

#[derive(Debug)]
pub struct StopCommands {
    fanotify: Fanotify,
    /// A duplicate of its descriptor.
    events: AsyncFd<OwnedFd>,
}

impl StopCommands {
    /// Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// [`fanotify::Error`].
    pub fn open() -> Result<Self, fanotify::Error> {
        let flags = InitFlags::FAN_CLASS_NOTIF
            | InitFlags::FAN_UNLIMITED_MARKS
            | InitFlags::FAN_NONBLOCK
            | InitFlags::FAN_CLOEXEC;
        let event = EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC | EventFFlags::O_LARGEFILE;
        let fanotify = Fanotify::init(flags, event).map_err(failed("fanotify_init"))?;
        let events = fanotify.as_fd().try_clone_to_owned();
        let events =
            events
                .and_then(readiness::register)
                .map_err(|source| fanotify::Error::Call {
                    call: "epoll_ctl",
                    source,
                })?;
        Ok(Self { fanotify, events })
    }

    /// Observes the container with this directory of its state.
    ///
    /// # Errors
    /// [`fanotify::Error`].
    pub fn watch(&self, directory: BorrowedFd<'_>) -> Result<(), fanotify::Error> {
        self.mark(MarkFlags::FAN_MARK_ADD, directory)
            .map_err(|errno| call("fanotify_mark", errno))
    }

    /// Ends that; a directory that is not observed is no error.
    ///
    /// # Errors
    /// [`fanotify::Error`].
    pub fn unwatch(&self, directory: BorrowedFd<'_>) -> Result<(), fanotify::Error> {
        match self.mark(MarkFlags::FAN_MARK_REMOVE, directory) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(call("fanotify_mark", errno)),
        }
    }

    fn mark(&self, flags: MarkFlags, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        // The call accepts no descriptor that was opened with O_PATH, but a path to one.
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let mask = MaskFlags::FAN_OPEN | MaskFlags::FAN_EVENT_ON_CHILD;
        self.fanotify
            .mark(flags, mask, AT_FDCWD, Some(Path::new(&path)))
    }

    /// Waits for commands that have probably sent stop signals. The future may be dropped at any time.
    ///
    /// # Errors
    /// [`fanotify::Error`].
    pub async fn next(&mut self) -> Result<Vec<ContainerId>, fanotify::Error> {
        loop {
            let ready = self.events.readable().await;
            let mut ready = ready.map_err(|source| fanotify::Error::Call {
                call: "epoll_wait",
                source,
            })?;
            match self.fanotify.read_events() {
                Ok(events) => {
                    let mut containers: Vec<_> = events.iter().filter_map(stopped).collect();
                    containers.dedup();
                    if !containers.is_empty() {
                        return Ok(containers);
                    }
                }
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(call("read", errno)),
            }
        }
    }
}

/// The container to which a command has probably sent a stop signal.
fn stopped(event: &FanotifyEvent) -> Option<ContainerId> {
    let command_line = runtime_state::command_line(Pid(event.pid()));
    if !command_line.is_empty() {
        return StopCommand::parse(&command_line).map(|command| command.container);
    }
    let opened = format!("/proc/self/fd/{}", event.fd()?.as_raw_fd());
    let opened = std::fs::read_link(opened).ok()?;
    let directory = opened.parent()?.file_name()?.to_str()?;
    ContainerId::parse(directory).ok()
}
