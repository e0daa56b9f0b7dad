//! The holder: a process of its own that gives the kernel its answers.
//!
//! A process that executes a program where a container's start is to be held
//! stands still until this process answers. So it does nothing else: one loop,
//! one thread, no locks, no files of others but a few bytes on the runtime's
//! tmpfs. What it does not manage the kernel does in its place: when this process
//! ends, however, everything goes; a timer of the kernel ends it when its loop
//! stands still; and when the agent is gone it lets everything go and ends.
//!
//! It has no capability but `CAP_SYS_ADMIN`, which marking takes.

mod marks;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use anyhow::Context;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use usher_client::error_chain::chain;
use usher_core::{
    base::{id::ContainerId, time::Timestamp},
    start::{Holder, LONGEST_MESSAGE, News, Order, Verdict},
};
use usher_sys::{
    oci::fanotify::{self, Exec, Group, Mark},
    process::{
        capability::{self, Needed},
        watchdog::Watchdog,
    },
    seqpacket::{Error, Plain, Received},
};

use self::marks::Place;

/// The process is killed when its loop stands still for this long while a start
/// is waited for.
const WATCHDOG: Duration = Duration::from_secs(2);
/// How often the loop goes round to say that it does not.
const ROUND: Duration = Duration::from_millis(500);

struct Loop {
    begin: Instant,
    group: Group,
    link: Plain,
    /// What the agent has no room for yet.
    unsaid: VecDeque<News>,
    watchdog: Watchdog,
    holder: Holder<Exec>,
    places: BTreeMap<ContainerId, Place>,
    marks: Marks,
}

/// Whether somebody may wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marks {
    None,
    Made,
    TakenBack,
}

/// Holds starts as the agent at the other end of standard input asks, until
/// that ends.
///
/// # Errors
/// When it cannot hold starts at all.
pub(crate) fn run() -> anyhow::Result<()> {
    let group = Group::open().context("asking the kernel to be asked")?;
    capability::keep_only(&[Needed::SysAdmin]).context("giving up capabilities")?;
    let link = io::stdin().as_fd().try_clone_to_owned();
    let link = Plain::from(link.context("taking standard input")?);
    let mut this = Loop {
        begin: Instant::now(),
        group,
        link,
        unsaid: VecDeque::new(),
        watchdog: Watchdog::new().context("making the watchdog")?,
        holder: Holder::default(),
        places: BTreeMap::new(),
        marks: Marks::None,
    };
    this.tell(News::Ready);
    let ended = this.serve();
    let held = this.holder.end(this.now());
    tracing::info!(starts = held.len(), "the agent is gone; let every start go");
    ended
}

impl Loop {
    fn serve(&mut self) -> anyhow::Result<()> {
        loop {
            self.watch()?;
            match poll(&mut self.descriptors(), self.timeout()) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno).context("poll"),
            }
            self.answer()?;
            if !self.obey()? {
                return Ok(());
            }
            let now = self.now();
            for overdue in self.holder.overdue(now) {
                self.go(overdue, true).context("letting a start go")?;
            }
        }
    }

    /// While nothing is marked nobody waits for an answer, and nobody has to look
    /// whether the loop goes round. An exec that was on its way to the queue when
    /// the last mark was taken back is there one round later.
    fn watch(&mut self) -> anyhow::Result<()> {
        self.marks = match (self.holder.is_empty(), self.marks) {
            (false, _) => Marks::Made,
            (true, Marks::Made) => {
                // Also those that nobody could take back any more.
                self.group.unmark_all().context("taking marks back")?;
                Marks::TakenBack
            }
            (true, _) => Marks::None,
        };
        let watched = if self.marks == Marks::None {
            self.watchdog.disarm()
        } else {
            self.watchdog.arm(WATCHDOG)
        };
        watched.context("winding up the watchdog")
    }

    fn descriptors(&self) -> [PollFd<'_>; 2] {
        let mut interest = PollFlags::POLLIN;
        interest.set(PollFlags::POLLOUT, !self.unsaid.is_empty());
        [
            PollFd::new(self.group.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.link.as_fd(), interest),
        ]
    }

    fn timeout(&self) -> PollTimeout {
        if self.marks == Marks::None {
            return PollTimeout::NONE;
        }
        let due = self.holder.next_due().map(|due| due.since(self.now()));
        let wait = due.map_or(ROUND, |wait| wait.min(ROUND));
        // Rounded up, not to come before the moment.
        let millis = wait.as_micros().div_ceil(1000);
        PollTimeout::try_from(millis).unwrap_or(PollTimeout::ZERO)
    }

    /// Answers all that wait to execute something.
    fn answer(&mut self) -> anyhow::Result<()> {
        let now = self.now();
        let Self {
            group,
            holder,
            places,
            ..
        } = self;
        let mut held = Vec::new();
        let mut answered = Ok(());
        let read = group.read(|exec| {
            let init_of = |id: &ContainerId| places.get(id)?.init();
            match holder.executes(now, exec.pid, exec, init_of) {
                Verdict::Allow(exec) => {
                    if let Err(error) = group.allow(exec) {
                        answered = Err(error);
                    }
                }
                Verdict::Hold(container) => held.push(container),
            }
        });
        for container in held {
            self.tell(News::Held { container });
        }
        if let Err(error @ fanotify::Error::Denied(_)) = &read {
            let reason = chain(error);
            self.tell(News::Refused { reason });
        }
        // Then nothing may wait for this process.
        read.and(answered).context("answering what is executed")
    }

    /// Does what the agent says; whether it is still there.
    fn obey(&mut self) -> anyhow::Result<bool> {
        self.speak();
        let mut buffer = [0; LONGEST_MESSAGE];
        loop {
            let (message, descriptors) = match self.link.receive(&mut buffer) {
                Ok(Received::Message(length, descriptors)) => {
                    (buffer.get(..length).unwrap_or_default(), descriptors)
                }
                Ok(Received::Nothing) => return Ok(true),
                Ok(Received::Closed) => return Ok(false),
                Err(error) => return Err(error).context("listening to the agent"),
            };
            match Order::decode(message) {
                Ok(Order::Mark { container, limit }) => self.mark(container, limit, descriptors),
                Ok(Order::Volumes { container }) => self.mark_volumes(&container, descriptors),
                Ok(Order::LetGo { container }) => {
                    let now = self.now();
                    if let Some(let_go) = self.holder.let_go(now, &container) {
                        self.go(let_go, false).context("letting a start go")?;
                    }
                    // Also after it was let go at its limit.
                    for root in descriptors {
                        self.unmark(Mark::FileSystem, &root);
                    }
                }
                Err(error) => tracing::error!(error = %chain(&error), "the agent says"),
            }
        }
    }

    fn tell(&mut self, news: News) {
        self.unsaid.push_back(news);
        self.speak();
    }

    /// An agent that does not listen does not keep this process from its work.
    fn speak(&mut self) {
        while let Some(news) = self.unsaid.front() {
            match self.link.send(&news.encode(), &[]) {
                Err(Error::Connection { source, .. })
                    if source.kind() == io::ErrorKind::WouldBlock =>
                {
                    return;
                }
                // That it has closed is seen when the next order is read.
                Ok(()) | Err(_) => drop(self.unsaid.pop_front()),
            }
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::new(self.begin.elapsed())
    }
}
