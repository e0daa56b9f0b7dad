//! The loop that decides: everything that happens on the node goes through the
//! engine, one event after the other, and what it asks for is done.
//!
//! It has a thread of its own, on which nothing else runs but discovery and
//! attempts, so that a long list of pods or a slow API server never stands
//! between an exit and its request.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use tokio::sync::{Semaphore, mpsc, oneshot};
use usher_core::{
    Action, Decision, Engine, Event,
    event::{ContainerKey, Outcome},
    mode::Modes,
    pod::Pod,
    time::Timestamp,
};
use usher_sys::cgroup;

use crate::{
    attempt::{self, Host},
    discovery::Discovery,
    metrics::Metrics,
    report,
    run_dir::Annotations,
    telemetry::chain,
};

/// Attempts at the same time: each is a socket and a few kB. More wait.
const ATTEMPTS: usize = 256;
/// Decisions that may wait to be written down.
const REPORTS: usize = 1024;

/// What comes from outside the node's kernel.
#[derive(Debug)]
pub(crate) enum Input {
    /// The Node's annotations.
    Node(Annotations),
    /// The kubelet's pods; None when they could not be had.
    Pods(Option<Vec<Pod>>),
    /// Whoever sends this wants to know that the loop runs.
    Pulse(oneshot::Sender<()>),
}

/// The loop's state.
#[derive(Debug)]
pub(crate) struct NodeLoop {
    engine: Engine,
    discovery: Discovery,
    host: Arc<Host>,
    metrics: Arc<Metrics>,
    begin: Instant,
    fetches: mpsc::Sender<()>,
    attempted: mpsc::Sender<(ContainerKey, Outcome)>,
    outcomes: mpsc::Receiver<(ContainerKey, Outcome)>,
    permits: Arc<Semaphore>,
    /// Decisions to write down when nothing else is to be done.
    reports: VecDeque<Decision>,
    /// Pods have come, gone or finished since they were counted.
    pods_changed: bool,
}

impl NodeLoop {
    pub(crate) fn new(
        discovery: Discovery,
        host: Host,
        metrics: Arc<Metrics>,
        fetches: mpsc::Sender<()>,
    ) -> Self {
        let (attempted, outcomes) = mpsc::channel(ATTEMPTS);
        Self {
            engine: Engine::default(),
            discovery,
            host: Arc::new(host),
            metrics,
            begin: Instant::now(),
            fetches,
            attempted,
            outcomes,
            permits: Arc::new(Semaphore::new(ATTEMPTS)),
            reports: VecDeque::new(),
            pods_changed: true,
        }
    }

    /// Runs until there are no more inputs, which is when the agent ends.
    ///
    /// # Errors
    /// When the cgroup tree cannot be watched any more.
    pub(crate) async fn run(
        mut self,
        first: Vec<Event>,
        mut inputs: mpsc::Receiver<Input>,
    ) -> Result<(), cgroup::Error> {
        for event in first {
            self.step(event);
        }
        loop {
            let wake = self
                .engine
                .next_wake()
                .map(|at| self.begin + at.since_start());
            let timer = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Exits first: what they lead to is what is waited for.
                biased;
                events = self.discovery.next() => {
                    for event in events? {
                        self.step(event);
                    }
                }
                outcome = self.outcomes.recv() => if let Some((key, outcome)) = outcome {
                    self.metrics.attempt(outcome.as_str());
                    self.step(Event::Attempted { key, outcome });
                },
                input = inputs.recv() => match input {
                    Some(input) => self.take(input)?,
                    None => {
                        self.report(self.reports.len());
                        return Ok(());
                    }
                },
                () = timer => self.step(Event::Timer),
                // Attempts that are under way go first: writing a line takes as
                // long as a request.
                () = tokio::task::yield_now(), if self.has_news() => self.tell_news(),
            }
            self.report(self.reports.len().saturating_sub(REPORTS));
        }
    }

    fn has_news(&self) -> bool {
        self.pods_changed || !self.reports.is_empty()
    }

    /// Writes one decision down, or counts the pods.
    fn tell_news(&mut self) {
        if !self.reports.is_empty() {
            self.report(1);
        } else if std::mem::take(&mut self.pods_changed) {
            let census = self.engine.census();
            let gauge = |count| i64::try_from(count).unwrap_or(i64::MAX);
            self.metrics.pods.set(gauge(census.pods));
            self.metrics.finished_pods.set(gauge(census.finished));
        }
    }

    /// Writes the oldest decisions down.
    fn report(&mut self, count: usize) {
        for decision in self.reports.drain(..count) {
            report::decision(&self.metrics, &decision);
        }
    }

    fn take(&mut self, input: Input) -> Result<(), cgroup::Error> {
        match input {
            Input::Node(annotations) => {
                let (modes, bad) = Modes::from_annotations(&annotations);
                for bad in bad {
                    tracing::warn!(error = %chain(&bad), "Node has an annotation that is not one");
                }
                tracing::info!(quit = %modes.quit, "took the Node's modes");
                self.metrics.mode("quit", modes.quit);
                self.step(Event::Modes(modes));
            }
            Input::Pods(pods) => {
                // A container that the list mentions and the tree does not show
                // is taken for gone, so what the tree shows by now comes first.
                for event in self.discovery.now()? {
                    self.step(event);
                }
                self.step(match pods {
                    Some(pods) => Event::Pods(pods),
                    None => Event::PodsUnavailable,
                });
            }
            // Who asked may have stopped waiting.
            Input::Pulse(pulse) => drop(pulse.send(())),
        }
        Ok(())
    }

    fn step(&mut self, event: Event) {
        tracing::trace!(?event, "happened");
        self.pods_changed |= matches!(event, Event::PodAppeared(_) | Event::PodGone(_));
        let now = Timestamp::new(self.begin.elapsed());
        for action in self.engine.step(now, event) {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            // Full only if the engine asked twice, which it does not.
            Action::FetchPods => drop(self.fetches.try_send(())),
            Action::Report(decision) => {
                self.pods_changed = true;
                self.reports.push_back(decision);
            }
            Action::Prepare(key) => {
                let Some(living) = self.discovery.living(&key) else {
                    return;
                };
                match attempt::prepare(&self.host, &living.init) {
                    Ok(socket) => living.socket = Some(socket),
                    // The attempt will tell, if there is one.
                    Err(outcome) => {
                        tracing::debug!(uid = %key.pod, container_id = %key.id, ?outcome, "could not prepare");
                    }
                }
            }
            Action::Attempt { key, step, timeout } => {
                let living = self.discovery.living(&key);
                let living = living.map(|living| (Arc::clone(&living.init), living.socket.take()));
                let host = Arc::clone(&self.host);
                let permits = Arc::clone(&self.permits);
                let attempted = self.attempted.clone();
                tokio::spawn(async move {
                    let outcome = match living {
                        None => Outcome::Gone,
                        Some((init, socket)) => {
                            // Never closed.
                            let _permit = permits.acquire().await;
                            attempt::attempt(&host, &init, socket, step, timeout).await
                        }
                    };
                    tracing::debug!(uid = %key.pod, container_id = %key.id, %step, ?outcome, "tried");
                    // Nobody listens only when the agent is ending.
                    drop(attempted.send((key, outcome)).await);
                });
            }
        }
    }
}
