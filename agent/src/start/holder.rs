//! The holder: a separate process that replies to the kernel's fanotify permission events.
//!
//! A process that executes a program of a marked container blocks until the holder replies. So the holder does nothing
//! else: it has one loop and no locks, and reads no foreign files but a few bytes on the runtime's tmpfs. A second thread
//! only closes the programs that waited, because a close may write or free a whole file.
//!
//! Failures release the starts. When the holder exits, for any reason, the kernel allows every exec. A kernel timer
//! kills a holder whose loop hangs. When the agent or its main thread ends, the holder releases every start and exits. The
//! same applies to the stop signals of lingering sidecars (`stops`).
//!
//! The kernel denies an exec if it cannot open the program for the holder. Only this container's hold is lost: the
//! holder removes the container's mark, reports the denial and continues.
//!
//! Its only capability is `CAP_SYS_ADMIN`, which fanotify marks need.

mod marks;
mod stops;

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
    sys::{
        prctl,
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};
use usher_client::error_chain::chain;
use usher_core::{
    base::{
        id::{ContainerId, Pid},
        time::Timestamp,
    },
    start::{Holder, LONGEST_MESSAGE, News, Order, Verdict},
};
use usher_sys::{
    oci::fanotify::{self, Group, Mark, Waiting},
    process::{
        capability::{self, Capability},
        watchdog::Watchdog,
    },
    seqpacket::{Error, Plain, Received},
};

use self::{marks::Place, stops::Stops};

/// The watchdog kills the process when its loop hangs for this long while anything is marked.
const WATCHDOG: Duration = Duration::from_secs(2);
/// The interval at which the loop rearms the watchdog.
const INTERVAL: Duration = Duration::from_millis(500);

struct Loop {
    started: Instant,
    group: Group,
    agent: Plain,
    /// Readable once the agent's main thread has ended.
    agent_ended: SignalFd,
    /// Messages that do not fit in the socket yet.
    unsent: VecDeque<News>,
    watchdog: Watchdog,
    holder: Holder<Waiting>,
    places: BTreeMap<ContainerId, Place>,
    stops: Stops,
    marks: Marks,
}

/// Whether a process may wait for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marks {
    None,
    Set,
    /// All marks are removed. An exec that had already started may reach the queue within one interval.
    Removed,
}

/// Holds starts on the agent's orders from standard input, until the agent exits.
pub(crate) fn run() -> anyhow::Result<()> {
    let agent_ended =
        signal_at_the_agents_end().context("requesting a signal at the agent's end")?;
    let group = Group::open().context("opening the fanotify group")?;
    capability::keep_only(&[Capability::CAP_SYS_ADMIN]).context("dropping capabilities")?;
    let stdin = io::stdin().as_fd().try_clone_to_owned();
    let mut this = Loop {
        started: Instant::now(),
        group,
        agent: Plain::from(stdin.context("duplicating standard input")?),
        agent_ended,
        unsent: VecDeque::new(),
        watchdog: Watchdog::new().context("creating the watchdog")?,
        holder: Holder::default(),
        places: BTreeMap::new(),
        stops: Stops::default(),
        marks: Marks::None,
    };
    this.send(News::Ready);
    let ended = this.serve();
    let now = this.now();
    let (starts, stops) = (this.holder.end(now), this.stops.end(now));
    let released = starts.len();
    for (exec, _held) in starts.into_iter().filter_map(|start| start.held) {
        // After an error the kernel releases it with the group.
        this.group.allow(exec).ok();
    }
    tracing::info!(
        starts = released,
        stops,
        "the agent is gone; released every start and stop signal"
    );
    ended
}

/// A thread of a killed agent that waits in the kernel keeps the socket open, but not its main thread alive. Not SIGKILL:
/// a held start would wait for a close in this process.
fn signal_at_the_agents_end() -> nix::Result<SignalFd> {
    let signals = SigSet::from(Signal::SIGTERM);
    signals.thread_block()?;
    let ended = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    Ok(ended)
}

impl Loop {
    fn serve(&mut self) -> anyhow::Result<()> {
        loop {
            self.update_watchdog()?;
            match poll(&mut self.descriptors(), self.timeout()) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno).context("poll"),
            }
            let signal = self.agent_ended.read_signal();
            if signal.context("reading signals")?.is_some() {
                return Ok(());
            }
            self.reply_to_execs()?;
            self.reply_to_opens()?;
            if !self.execute_orders()? {
                return Ok(());
            }
            let now = self.now();
            for overdue in self.holder.overdue(now) {
                self.release(overdue, true).context("releasing a start")?;
            }
            self.release_overdue_stops(now)?;
        }
    }

    /// Arms the watchdog while a process may wait for a reply, which requires a mark.
    fn update_watchdog(&mut self) -> anyhow::Result<()> {
        self.marks = match (self.holder.is_empty(), self.marks) {
            (false, _) => Marks::Set,
            (true, Marks::Set) => {
                // Includes marks that could not be removed one by one.
                self.group.unmark_all().context("removing all marks")?;
                Marks::Removed
            }
            (true, _) => Marks::None,
        };
        let updated = if self.marks == Marks::None && self.stops.is_empty() {
            self.watchdog.disarm()
        } else {
            self.watchdog.arm(WATCHDOG)
        };
        updated.context("arming the watchdog")
    }

    fn descriptors(&self) -> Vec<PollFd<'_>> {
        let mut interest = PollFlags::POLLIN;
        interest.set(PollFlags::POLLOUT, !self.unsent.is_empty());
        let groups = [Some(self.group.as_fd()), self.stops.group()];
        let groups = groups.into_iter().flatten();
        groups
            .chain([self.agent_ended.as_fd()])
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .chain([PollFd::new(self.agent.as_fd(), interest)])
            .collect()
    }

    fn timeout(&self) -> PollTimeout {
        if self.marks == Marks::None && self.stops.is_empty() {
            return PollTimeout::NONE;
        }
        let dues = [self.holder.next_due(), self.stops.next_due()];
        let due = dues.into_iter().flatten().min();
        let due = due.map(|due| due.since(self.now()));
        let wait = due.map_or(INTERVAL, |wait| wait.min(INTERVAL));
        // Rounded up, so that the loop does not wake early.
        let millis = wait.as_micros().div_ceil(1000);
        PollTimeout::try_from(millis).unwrap_or(PollTimeout::ZERO)
    }

    /// Replies to each exec in the queue, or holds it.
    fn reply_to_execs(&mut self) -> anyhow::Result<()> {
        let now = self.now();
        let Self {
            group,
            holder,
            places,
            ..
        } = self;
        let (held, replied) = reply(group, |exec| {
            let init_of = |id: &ContainerId| places.get(id)?.init();
            holder.executes(now, exec.pid, exec, init_of)
        });
        for container in held {
            self.remove_marks(&container);
            self.send(News::Held { container });
        }
        match replied {
            Err(fanotify::Error::Denied { pid, source }) => {
                self.exec_denied(pid, &chain(&source));
                Ok(())
            }
            // After an error the process exits, so that the kernel releases this exec.
            replied => replied.context("replying to an exec"),
        }
    }

    fn exec_denied(&mut self, pid: Option<Pid>, reason: &str) {
        let Self { holder, places, .. } = self;
        let container = holder.denied(pid, |id| places.get(id)?.init());
        if let Some(container) = &container {
            self.remove_marks(container);
            self.places.remove(container);
        }
        self.send(News::denied(container, reason));
    }

    /// Executes the agent's orders. Returns whether the agent still runs.
    fn execute_orders(&mut self) -> anyhow::Result<bool> {
        self.flush();
        let mut buffer = [0; LONGEST_MESSAGE];
        loop {
            let (message, descriptors) = match self.agent.receive(&mut buffer) {
                Ok(Received::Message(length, descriptors)) => {
                    (buffer.get(..length).unwrap_or_default(), descriptors)
                }
                Ok(Received::Nothing) => return Ok(true),
                Ok(Received::Closed) => return Ok(false),
                Err(error) => return Err(error).context("receiving an order"),
            };
            match Order::decode(message) {
                Ok(Order::Mark { container, limit }) => self.mark(container, limit, descriptors),
                Ok(Order::ArmStop { container, limit }) => {
                    self.arm_stop(container, limit, descriptors);
                }
                Ok(Order::ReleaseStop { container }) => {
                    let now = self.now();
                    self.release_stop(now, &container)?;
                }
                Ok(Order::Volumes { container }) => self.mark_volumes(&container, descriptors),
                Ok(Order::Release { container }) => {
                    let now = self.now();
                    if let Some(released) = self.holder.release(now, &container) {
                        self.release(released, false).context("releasing a start")?;
                    }
                    // The root's mark may remain after a release at the limit.
                    for root in descriptors {
                        self.unmark(Mark::FileSystem, &root);
                    }
                }
                Err(error) => {
                    tracing::error!(error = %chain(&error), "received an invalid request from the agent");
                }
            }
        }
    }

    fn send(&mut self, news: News) {
        self.unsent.push_back(news);
        self.flush();
    }

    /// Never waits: an agent that does not read must not block the holder.
    fn flush(&mut self) {
        while let Some(news) = self.unsent.front() {
            match self.agent.send(&news.encode(), &[]) {
                Err(Error::Connection { source, .. })
                    if source.kind() == io::ErrorKind::WouldBlock =>
                {
                    return;
                }
                // The next receive reports a closed socket.
                Ok(()) | Err(_) => drop(self.unsent.pop_front()),
            }
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::new(self.started.elapsed())
    }
}

/// Replies to each operation in the queue, or holds it. Returns the containers whose operation is now held, even after
/// an error.
fn reply(
    group: &Group,
    mut decide: impl FnMut(Waiting) -> Verdict<Waiting>,
) -> (Vec<ContainerId>, Result<(), fanotify::Error>) {
    let mut held = Vec::new();
    let mut replied = Ok(());
    let read = group.read(|waiting| match decide(waiting) {
        Verdict::Allow(waiting) => {
            if let Err(error) = group.allow(waiting) {
                replied = Err(error);
            }
        }
        Verdict::Hold(container) => held.push(container),
    });
    (held, replied.and(read))
}
