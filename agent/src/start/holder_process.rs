//! The holder as a child process, and the socket to it.
//!
//! The agent starts it for the first start that is to be held, and restarts it when it ends, with a backoff.

use std::{
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tokio::time::timeout_at;
use usher_client::{backoff::Backoff, crash_point, error_chain::chain};
use usher_core::{
    kube_event::NodeCondition,
    start::{LONGEST_MESSAGE, News, Order},
};
use usher_sys::seqpacket::{self, Connection};

use crate::{args::HOLDER, telemetry::reporter::Reporter};

/// How long the holder may take to reply. Its watchdog ends it when it hangs while anything is marked, but only then.
const REPLY: Duration = Duration::from_secs(2);
/// This many ends in a row, each within [`LASTING`] of the one before, are worth an Event.
const ENDS: u32 = 3;
const LASTING: Duration = Duration::from_secs(300);
const PROGRAM: &str = "/proc/self/exe";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("creating the socket pair")]
    Socket(#[from] seqpacket::Error),
    #[error("executing {PROGRAM}")]
    Spawn(#[source] std::io::Error),
}

/// The holder's command line.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) flags: Vec<String>,
}

#[derive(Debug)]
pub(super) enum HolderEvent {
    News(News),
    /// The holder has ended, and the kernel has released everything that it held.
    Ended,
}

#[derive(Debug)]
pub(super) struct HolderProcess {
    launch: Launch,
    reporter: Reporter,
    ends: u32,
    last_end: Option<Instant>,
    is_needed: bool,
    is_disabled: bool,
    running: Option<Running>,
    backoff: Backoff,
}

#[derive(Debug)]
struct Running {
    process: Child,
    socket: Connection,
    /// The deadline of its next message.
    reply_due: Option<Instant>,
}

impl HolderProcess {
    pub(super) fn new(launch: Launch, reporter: Reporter) -> Self {
        Self {
            launch,
            reporter,
            ends: 0,
            last_end: None,
            is_needed: false,
            is_disabled: false,
            running: None,
            backoff: Backoff::default(),
        }
    }

    /// Keeps the holder running from now on until the agent ends.
    pub(super) fn require(&mut self) {
        if !std::mem::replace(&mut self.is_needed, true) {
            self.start();
        }
    }

    /// The holder does more harm than good on this node: the agent does not start it again.
    pub(super) fn disable(&mut self) {
        tracing::error!(
            "the kernel denied an exec that the holder had to allow; starts are not held any more"
        );
        self.is_disabled = true;
        self.reporter.metrics.start_supported.set(0);
    }

    fn start(&mut self) {
        self.backoff.tried(Instant::now());
        match self.launch.start() {
            Ok(running) => {
                tracing::info!(pid = running.process.id(), "started the holder process");
                self.running = Some(running);
                self.reporter.metrics.holder_up.set(1);
            }
            Err(error) => {
                tracing::error!(error = %chain(&error), "could not start the holder process; starts are not held");
                self.report_end();
            }
        }
    }

    /// Waits for the holder. The future may be dropped at any time.
    pub(super) async fn next(&mut self) -> HolderEvent {
        loop {
            let Some(running) = &mut self.running else {
                if !self.is_needed || self.is_disabled {
                    return std::future::pending().await;
                }
                let due = self.backoff.due(Instant::now());
                tokio::time::sleep_until(due.into()).await;
                self.start();
                continue;
            };
            let mut buffer = [0; LONGEST_MESSAGE];
            let received = running.socket.receive(&mut buffer);
            let received = match running.reply_due {
                None => received.await,
                Some(due) => match timeout_at(due.into(), received).await {
                    Ok(received) => received,
                    Err(_elapsed) => return self.ended("it did not reply in time"),
                },
            };
            match received {
                Ok(Some((length, _descriptors))) => {
                    running.reply_due = None;
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
            running.end();
        }
        let metrics = &self.reporter.metrics;
        metrics.holder_up.set(0);
        metrics.holder_restarts.inc();
        self.report_end();
        HolderEvent::Ended
    }

    fn report_end(&mut self) {
        let now = Instant::now();
        let last = self.last_end.replace(now);
        if last.is_none_or(|last| now >= last + LASTING) {
            self.ends = 0;
        }
        self.ends += 1;
        if self.ends >= ENDS {
            let condition = NodeCondition::StartHolderFailed;
            self.reporter.events.send_node(&condition);
        }
    }

    /// Sends an order to the holder.
    ///
    /// # Errors
    /// The reason why it could not be sent.
    pub(super) fn send(
        &mut self,
        order: &Order,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), String> {
        let Some(running) = &mut self.running else {
            return Err("the holder process does not run".to_owned());
        };
        // Sending never waits: a holder that does not read hangs.
        let sent = running.socket.send_with(&order.encode(), descriptors);
        crash_point::reach("holder-order-sent", "");
        if sent.is_ok() && matches!(order, Order::Mark { .. }) {
            let due = || Instant::now() + REPLY;
            running.reply_due.get_or_insert_with(due);
        }
        sent.map_err(|error| chain(&error))
    }
}

impl Launch {
    fn start(&self) -> Result<Running, Error> {
        let (ours, theirs) = Connection::pair()?;
        let spawned = Command::new(PROGRAM)
            .arg0("usher-agent")
            .arg(HOLDER)
            .args(&self.flags)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn();
        let process = spawned.map_err(Error::Spawn)?;
        Ok(Running {
            process,
            socket: ours,
            // Its first message reports that it is ready.
            reply_due: Some(Instant::now() + REPLY),
        })
    }
}

impl Running {
    /// Kills the process. In a thread: closing many marks takes a while.
    fn end(mut self) {
        let reap = move || {
            drop(self.process.kill());
            drop(self.process.wait());
        };
        // Without a thread it stays a zombie.
        drop(thread::Builder::new().name("reap".to_owned()).spawn(reap));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use usher_core::kube_event::Reason;

    use super::*;
    use crate::{kubernetes::events::EventPublisher, telemetry::metrics::Metrics};

    #[test]
    fn repeated_ends_are_reported() {
        let metrics = Arc::new(Metrics::new());
        let (events, mut publisher) = EventPublisher::new("node-1", Arc::clone(&metrics));
        let reporter = Reporter::new(metrics, events);
        let mut holder = HolderProcess::new(Launch { flags: Vec::new() }, reporter);
        for _ in 1..ENDS {
            holder.ended("a test");
        }
        assert_eq!(publisher.reasons(), []);
        holder.ended("a test");
        assert_eq!(publisher.reasons(), [Reason::StartHolderFailed]);
        // The number restarts after a quiet period.
        holder.last_end = Instant::now().checked_sub(LASTING);
        if holder.last_end.is_some() {
            holder.ended("a test");
            assert_eq!(publisher.reasons(), []);
        }
    }
}
