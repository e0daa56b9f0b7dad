//! The holder as a child process, and the socket to it.
//!
//! The agent starts it for the first hold, and restarts it with a backoff when it exits. It holds no starts while the
//! kernel cannot open programs for it; stop signals need no program.

use std::{
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use tokio::time::timeout_at;
use usher_client::{backoff::Backoff, crash_point, error_chain::chain};
use usher_core::{
    kube_event::NodeCondition,
    start::{LONGEST_MESSAGE, News, Order},
};
use usher_sys::process::child::{ChildProcess, Launch};

use crate::telemetry::reporter::Reporter;

/// How long the holder may take to reply. Its own watchdog covers only the time in which something is marked.
const REPLY: Duration = Duration::from_secs(2);
/// How long its start may take while it runs or waits for a processor: its successor would wait as long. Marks have
/// [`REPLY`] only, because processes may wait for the holder then.
const START: Duration = Duration::from_secs(10);
/// The agent sends an Event after this many exits in a row, each within [`LASTING`] of the previous one.
const ENDS: u32 = 3;
const LASTING: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) enum HolderEvent {
    News(News),
    /// The holder has exited, and the kernel has released everything that it held.
    Ended,
    /// The pause is over, and starts can be held again.
    PauseEnded,
}

#[derive(Debug)]
pub(super) struct HolderProcess {
    launch: Launch,
    reporter: Reporter,
    ends: u32,
    last_end: Option<Instant>,
    is_needed: bool,
    /// Until then it gets no starts to hold.
    starts_paused_until: Option<Instant>,
    running: Option<Running>,
    backoff: Backoff,
}

#[derive(Debug)]
struct Running {
    child: ChildProcess,
    /// The deadline of its next message.
    reply_due: Option<Instant>,
    /// Until then it may start; None once it is ready.
    start_due: Option<Instant>,
    /// It holds something that could not be released.
    is_failed: bool,
}

impl HolderProcess {
    pub(super) fn new(launch: Launch, reporter: Reporter) -> Self {
        Self {
            launch,
            reporter,
            ends: 0,
            last_end: None,
            is_needed: false,
            starts_paused_until: None,
            running: None,
            backoff: Backoff::default(),
        }
    }

    /// Starts the holder, and keeps it running until the agent exits.
    pub(super) fn require(&mut self) {
        self.is_needed = true;
        let now = Instant::now();
        if self.running.is_none() && self.backoff.due(now) <= now {
            self.start();
        }
    }

    pub(super) fn count_denied_exec(&self) {
        self.reporter.metrics.denied_execs.inc();
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.starts_paused_until.is_some()
    }

    /// Sends the holder no starts during the pause.
    pub(super) fn pause_starts(&mut self, pause: Duration) {
        tracing::error!(
            minutes = pause.as_secs() / 60,
            "the kernel denied the execs of several pods in a row; paused the holding of starts"
        );
        self.starts_paused_until = Some(Instant::now() + pause);
        self.reporter.metrics.start_hold_supported.set(0);
    }

    fn end_pause(&mut self) -> HolderEvent {
        tracing::info!("the pause is over; starts are held again");
        self.starts_paused_until = None;
        self.reporter.metrics.start_hold_supported.set(1);
        HolderEvent::PauseEnded
    }

    fn start(&mut self) {
        self.backoff.tried(Instant::now());
        match self.launch.start() {
            Ok(child) => {
                tracing::info!(pid = child.pid(), "started the holder process");
                // The first message reports readiness.
                let now = Instant::now();
                self.running = Some(Running {
                    child,
                    reply_due: Some(now + REPLY),
                    start_due: Some(now + START),
                    is_failed: false,
                });
                self.reporter.metrics.holder_up.set(1);
            }
            Err(error) => {
                tracing::error!(error = %chain(&error), "could not start the holder process; starts are not held");
                self.report_end(Instant::now());
            }
        }
    }

    /// The future may be dropped at any time.
    pub(super) async fn next(&mut self) -> HolderEvent {
        let Some(end) = self.starts_paused_until else {
            return self.next_of_process().await;
        };
        match timeout_at(end.into(), self.next_of_process()).await {
            Ok(event) => event,
            Err(_elapsed) => self.end_pause(),
        }
    }

    async fn next_of_process(&mut self) -> HolderEvent {
        loop {
            let Some(running) = &mut self.running else {
                if !self.is_needed {
                    return std::future::pending().await;
                }
                let due = self.backoff.due(Instant::now());
                tokio::time::sleep_until(due.into()).await;
                self.start();
                continue;
            };
            if running.is_failed {
                return self.ended("it did not receive an order to release");
            }
            let mut buffer = [0; LONGEST_MESSAGE];
            let received = running.child.socket.receive(&mut buffer);
            let received = match running.reply_due {
                None => received.await,
                Some(due) => match timeout_at(due.into(), received).await {
                    Ok(received) => received,
                    Err(_elapsed) if running.may_still_start(Instant::now()) => continue,
                    Err(_elapsed) => return self.ended("it did not reply in time"),
                },
            };
            match received {
                Ok(Some((length, _descriptors))) => {
                    running.reply_due = None;
                    running.start_due = None;
                    match News::decode(buffer.get(..length).unwrap_or_default()) {
                        Ok(news) => return HolderEvent::News(news),
                        Err(error) => {
                            tracing::error!(error = %chain(&error), "received an invalid message from the holder process");
                        }
                    }
                }
                Ok(None) => return self.ended("it closed its socket"),
                Err(error) => return self.ended(&chain(&error)),
            }
        }
    }

    fn ended(&mut self, reason: &str) -> HolderEvent {
        tracing::error!(
            reason,
            "the holder process ended; the kernel released the starts that it held"
        );
        if let Some(running) = self.running.take() {
            running.child.end();
        }
        let metrics = &self.reporter.metrics;
        metrics.holder_up.set(0);
        metrics.holder_restarts.inc();
        self.report_end(Instant::now());
        HolderEvent::Ended
    }

    fn report_end(&mut self, now: Instant) {
        let last = self.last_end.replace(now);
        if last.is_none_or(|last| now >= last + LASTING) {
            self.ends = 0;
        }
        self.ends += 1;
        if self.ends >= ENDS {
            let condition = NodeCondition::HolderFailed;
            self.reporter.events.send_node(&condition);
        }
    }

    /// Sends an order. A holder that cannot receive a release that is due now is ended, so that the kernel releases it.
    pub(super) fn send(
        &mut self,
        order: &Order,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), String> {
        let is_paused = self.is_paused();
        let Some(running) = &mut self.running else {
            return Err("the holder process does not run".to_owned());
        };
        if is_paused && matches!(order, Order::Mark { .. }) {
            return Err("the holding of starts is paused".to_owned());
        }
        // Sending never waits: a full socket means that the holder hangs.
        let sent = running.child.socket.send_with(&order.encode(), descriptors);
        crash_point::reach("holder-order-sent", "");
        if sent.is_ok() && matches!(order, Order::Mark { .. } | Order::ArmStop { .. }) {
            let due = || Instant::now() + REPLY;
            running.reply_due.get_or_insert_with(due);
        }
        let must_arrive = match order {
            Order::ReleaseStop { .. } => true,
            Order::Release { .. } => is_paused,
            _ => false,
        };
        running.is_failed |= sent.is_err() && must_arrive;
        sent.map_err(|error| chain(&error))
    }
}

impl Running {
    /// Gives a holder more time that is not ready yet because it waits for a processor. Returns whether it has more.
    fn may_still_start(&mut self, now: Instant) -> bool {
        let Some(start_due) = self.start_due else {
            return false;
        };
        let may = now < start_due && self.child.is_runnable();
        if may {
            tracing::debug!("the holder process waits for a processor; its start takes longer");
            self.reply_due = Some(start_due.min(now + REPLY));
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use std::{os::fd::AsFd, sync::Arc};

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use tokio::time::timeout;
    use usher_core::{base::id::ContainerId, kube_event::Reason};

    use super::*;
    use crate::{args::HOLDER, kubernetes::events::EventPublisher, telemetry::metrics::Metrics};

    /// Set in the environment of a test that is a holder.
    const ALONE: &str = "USHER_TEST_ALONE";

    fn holder() -> (HolderProcess, EventPublisher) {
        let metrics = Arc::new(Metrics::new());
        let (events, publisher) = EventPublisher::new("node-1", Arc::clone(&metrics));
        let reporter = Reporter::new(metrics, events);
        let launch = Launch {
            role: HOLDER,
            flags: Vec::new(),
            variables: Vec::new(),
        };
        (HolderProcess::new(launch, reporter), publisher)
    }

    /// This test in another process.
    fn silent(test: &'static str) -> Launch {
        Launch {
            role: test,
            flags: vec!["--exact".to_owned()],
            variables: vec![(ALONE, "1".to_owned())],
        }
    }

    /// Whether this process is the holder of a test. It waits until its socket is closed.
    fn waits_as_holder() -> bool {
        let is_holder = std::env::var_os(ALONE).is_some();
        if is_holder {
            let socket = std::io::stdin();
            let mut closed = [PollFd::new(socket.as_fd(), PollFlags::empty())];
            poll(&mut closed, PollTimeout::from(60_000_u16)).unwrap();
        }
        is_holder
    }

    #[test]
    fn repeated_ends_are_reported() {
        let (mut holder, mut publisher) = holder();
        let mut now = Instant::now();
        let just_before = LASTING - Duration::from_nanos(1);
        for _ in 1..ENDS {
            holder.report_end(now);
            now += just_before;
        }
        assert_eq!(publisher.reasons(), []);
        holder.report_end(now);
        assert_eq!(publisher.reasons(), [Reason::HolderFailed]);
        // A quiet period resets the count.
        now += LASTING;
        holder.report_end(now);
        assert_eq!(publisher.reasons(), []);
    }

    #[test]
    fn end_of_the_process_is_reported() {
        let (mut holder, mut publisher) = holder();
        for _ in 0..ENDS {
            holder.ended("a test");
        }
        assert_eq!(publisher.reasons(), [Reason::HolderFailed]);
    }

    /// The holder is this test in another process, which reads nothing.
    #[tokio::test]
    async fn holder_that_cannot_receive_a_release_is_ended() {
        if waits_as_holder() {
            return;
        }
        let (mut holder, _publisher) = holder();
        holder.launch =
            silent("start::holder_process::tests::holder_that_cannot_receive_a_release_is_ended");
        holder.require();
        // It owes no reply.
        holder.running.as_mut().unwrap().reply_due = None;
        let container = ContainerId::parse(&"a".repeat(64)).unwrap();
        let order = Order::ReleaseStop { container };
        while holder.send(&order, &[]).is_ok() {}
        let ended = timeout(Duration::from_secs(10), holder.next());
        assert!(matches!(ended.await, Ok(HolderEvent::Ended)));
        assert!(holder.running.is_none());
    }

    /// The holder is this test in another process, which computes.
    #[tokio::test]
    async fn holder_that_runs_has_more_time_until_it_is_ready() {
        if std::env::var_os(ALONE).is_some() {
            let end = Instant::now() + Duration::from_secs(60);
            while Instant::now() < end {}
            return;
        }
        // The time for its start is over, or it is ready.
        for start_due in [Some(Instant::now()), None] {
            let (mut holder, _publisher) = holder();
            holder.launch = silent(
                "start::holder_process::tests::holder_that_runs_has_more_time_until_it_is_ready",
            );
            holder.require();
            let running = holder.running.as_mut().unwrap();
            let mut in_a_row = 0;
            while in_a_row < 50 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                in_a_row = (in_a_row + 1) * u32::from(running.child.is_runnable());
            }
            running.reply_due = Some(Instant::now());
            let soon = timeout(Duration::from_millis(100), holder.next());
            assert!(soon.await.is_err());
            let running = holder.running.as_mut().unwrap();
            running.reply_due = Some(Instant::now());
            running.start_due = start_due;
            let ended = timeout(Duration::from_secs(10), holder.next());
            assert!(matches!(ended.await, Ok(HolderEvent::Ended)));
        }
    }

    /// The holder is this test in another process, which reads nothing.
    #[tokio::test]
    async fn pause_concerns_starts_only() {
        if waits_as_holder() {
            return;
        }
        let (mut holder, _publisher) = holder();
        let metrics = Arc::clone(&holder.reporter.metrics);
        metrics.start_hold_supported.set(1);
        let an_hour = Duration::from_hours(1);
        holder.pause_starts(an_hour);
        assert_eq!(metrics.start_hold_supported.get(), 0);
        holder.launch = silent("start::holder_process::tests::pause_concerns_starts_only");
        holder.require();
        holder.running.as_mut().unwrap().reply_due = None;
        let container = ContainerId::parse(&"a".repeat(64)).unwrap();
        let limit = Duration::from_secs(1);
        let mark = Order::Mark {
            container: container.clone(),
            limit,
        };
        assert!(holder.send(&mark, &[]).unwrap_err().contains("paused"));
        let arm = Order::ArmStop { container, limit };
        assert_eq!(holder.send(&arm, &[]), Ok(()));
        holder.running.as_mut().unwrap().reply_due = None;
        let early = timeout(Duration::from_millis(1), holder.next());
        assert!(early.await.is_err());
        holder.starts_paused_until = holder.starts_paused_until.map(|end| end - an_hour);
        assert!(matches!(holder.next().await, HolderEvent::PauseEnded));
        assert_eq!(metrics.start_hold_supported.get(), 1);
        assert_eq!(holder.send(&mark, &[]), Ok(()));
    }
}
