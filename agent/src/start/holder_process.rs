//! The holder as a child, and the socket to it.
//!
//! It is started when the first pod wants it, and again when it ended: at once,
//! then after longer and longer waits.

use std::{
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, Stdio},
    sync::Arc,
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

use crate::{args::HOLDER, kubernetes::events::Teller, telemetry::metrics::Metrics};

/// How long the holder may take to answer. It ends by itself when it stands still
/// while anything is marked, but not before.
const ANSWER: Duration = Duration::from_secs(2);
/// So many ends in a row, none of them longer than [`LASTING`] after the one before, are worth an Event.
const ENDS: u32 = 3;
const LASTING: Duration = Duration::from_secs(300);
/// This program.
const PROGRAM: &str = "/proc/self/exe";

/// The holder cannot be started.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("making the socket to it")]
    Socket(#[from] seqpacket::Error),
    #[error("executing {PROGRAM}")]
    Spawn(#[source] std::io::Error),
}

/// Flags that the holder takes over.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) flags: Vec<String>,
}

/// What comes from the holder.
#[derive(Debug)]
pub(super) enum Word {
    News(News),
    /// It has ended: everything that it held goes.
    Ended,
}

/// The holder, as far as there is one.
#[derive(Debug)]
pub(super) struct Link {
    launch: Launch,
    metrics: Arc<Metrics>,
    teller: Teller,
    ends: u32,
    last_end: Option<Instant>,
    wanted: bool,
    given_up: bool,
    holder: Option<Running>,
    backoff: Backoff,
}

#[derive(Debug)]
struct Running {
    process: Child,
    socket: Connection,
    /// By when it has to say something.
    answer_due: Option<Instant>,
}

impl Link {
    pub(super) fn new(launch: Launch, metrics: Arc<Metrics>, teller: Teller) -> Self {
        Self {
            launch,
            metrics,
            teller,
            ends: 0,
            last_end: None,
            wanted: false,
            given_up: false,
            holder: None,
            backoff: Backoff::default(),
        }
    }

    /// There are starts to be held, from now on until the agent ends.
    pub(super) fn want(&mut self) {
        if !std::mem::replace(&mut self.wanted, true) {
            self.start();
        }
    }

    /// It does more harm than good on this node: it is not started again.
    pub(super) fn give_up(&mut self) {
        tracing::error!(
            "the kernel refuses to execute what is asked about; starts are not held any more"
        );
        self.given_up = true;
        self.metrics.start_supported.set(0);
    }

    fn start(&mut self) {
        self.backoff.tried(Instant::now());
        match self.launch.start() {
            Ok(running) => {
                tracing::info!(
                    pid = running.process.id(),
                    "started the process that holds starts"
                );
                self.holder = Some(running);
                self.metrics.holder_up.set(1);
            }
            Err(error) => {
                tracing::error!(error = %chain(&error), "could not start the process that holds starts; they are not held");
                self.tell();
            }
        }
    }

    /// Waits for a word of the holder. May be dropped and called again at any
    /// time.
    pub(super) async fn next(&mut self) -> Word {
        loop {
            let Some(running) = &mut self.holder else {
                if !self.wanted || self.given_up {
                    return std::future::pending().await;
                }
                let due = self.backoff.due(Instant::now());
                tokio::time::sleep_until(due.into()).await;
                self.start();
                continue;
            };
            let mut buffer = [0; LONGEST_MESSAGE];
            let received = running.socket.receive(&mut buffer);
            let received = match running.answer_due {
                None => received.await,
                Some(due) => match timeout_at(due.into(), received).await {
                    Ok(received) => received,
                    Err(_elapsed) => return self.ended("it does not answer"),
                },
            };
            match received {
                Ok(Some((length, _descriptors))) => {
                    running.answer_due = None;
                    match News::decode(buffer.get(..length).unwrap_or_default()) {
                        Ok(news) => return Word::News(news),
                        Err(error) => {
                            tracing::error!(error = %chain(&error), "the holder says");
                        }
                    }
                }
                Ok(None) => return self.ended("it closed its socket"),
                Err(error) => return self.ended(&chain(&error)),
            }
        }
    }

    fn ended(&mut self, how: &str) -> Word {
        tracing::error!(
            how,
            "the process that holds starts ended; what it held goes"
        );
        if let Some(running) = self.holder.take() {
            running.end();
        }
        self.metrics.holder_up.set(0);
        self.metrics.holder_restarts.inc();
        self.tell();
        Word::Ended
    }

    fn tell(&mut self) {
        let now = Instant::now();
        let last = self.last_end.replace(now);
        if last.is_none_or(|last| now >= last + LASTING) {
            self.ends = 0;
        }
        self.ends += 1;
        if self.ends >= ENDS {
            self.teller.node(&NodeCondition::StartHolderFailed);
        }
    }

    /// Gives the holder an order; says why it cannot be given.
    pub(super) fn order(
        &mut self,
        order: &Order,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), String> {
        let Some(running) = &mut self.holder else {
            return Err("the process that holds starts does not run".to_owned());
        };
        // It never waits: a holder that does not read is as good as dead.
        let sent = running.socket.send_with(&order.encode(), descriptors);
        crash_point::reach("holder-told", "");
        if sent.is_ok() && matches!(order, Order::Mark { .. }) {
            let due = || Instant::now() + ANSWER;
            running.answer_due.get_or_insert_with(due);
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
            // That it is ready.
            answer_due: Some(Instant::now() + ANSWER),
        })
    }
}

impl Running {
    /// Ends it for good. Where it closes many marks that takes a while.
    fn end(mut self) {
        let reap = move || {
            drop(self.process.kill());
            drop(self.process.wait());
        };
        // Where no thread is to be had it stays a zombie.
        drop(thread::Builder::new().name("reap".to_owned()).spawn(reap));
    }
}

#[cfg(test)]
mod tests {
    use usher_core::kube_event::Reason;

    use super::*;
    use crate::kubernetes::events::Events;

    #[test]
    fn one_that_ends_again_and_again_is_told() {
        let metrics = Arc::new(Metrics::new());
        let (teller, mut events) = Events::new("node-1", Arc::clone(&metrics));
        let mut link = Link::new(Launch { flags: Vec::new() }, metrics, teller);
        for _ in 1..ENDS {
            link.ended("a test");
        }
        assert_eq!(events.reasons(), []);
        link.ended("a test");
        assert_eq!(events.reasons(), [Reason::StartHolderFailed]);
        // After a good while it is counted anew.
        link.last_end = Instant::now().checked_sub(LASTING);
        if link.last_end.is_some() {
            link.ended("a test");
            assert_eq!(events.reasons(), []);
        }
    }
}
