//! The loop that decides: everything that happens on the node goes through the
//! engine, one event after the other, and what it asks for is done.
//!
//! It has a thread of its own, on which nothing else runs but discovery and
//! attempts, so that a long list of pods or a slow API server never stands
//! between an exit and its request.

mod actions;
mod input;
mod modes;
mod operator;
mod overdue;
mod snapshot;

use std::{collections::VecDeque, mem, sync::Arc, time::Instant};

use tokio::sync::{
    Semaphore,
    mpsc::{self, error::TrySendError},
    watch,
};
use usher_client::{crash_point, run_dir::Annotations};
use usher_core::{
    Engine, Event, base::time::Timestamp, engine::request::Answer, kube_event::NodeCondition,
    pod::container_change::ContainerChange, settings::mode::Modes,
};
use usher_sys::pods::cgroup;

pub(crate) use self::{
    input::{Input, View},
    operator::Person,
};
use crate::{
    hold::{Sandboxes, cni_socket::Announcement},
    kubernetes::events::Teller,
    node::{config_file::Loaded, discovery::Discovery},
    quit::Host,
    start::{self, Starts},
    telemetry::{decision_log::Record, metrics::Metrics},
};

/// Attempts at the same time: each is a socket and a few kB. More wait.
const ATTEMPTS: usize = 256;

/// What the loop wants to know from outside the node's kernel.
#[derive(Debug)]
pub(crate) struct Wishes {
    /// The kubelet's pods.
    pub(crate) pods: mpsc::Sender<()>,
    /// What this Namespace says.
    pub(crate) namespaces: mpsc::Sender<String>,
    /// Whether the CNI plugin is to be installed.
    pub(crate) plugin: watch::Sender<bool>,
}

/// What the node shows, and what is done to it.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) discovery: Discovery,
    /// What the CNI plugin tells.
    pub(crate) announcements: mpsc::Receiver<Announcement>,
    pub(crate) starts: start::Settings,
    pub(crate) teller: Teller,
}

/// The loop's state.
#[derive(Debug)]
pub(crate) struct NodeLoop {
    engine: Engine,
    discovery: Discovery,
    host: Arc<Host>,
    metrics: Arc<Metrics>,
    records: mpsc::Sender<Record>,
    begin: Instant,
    wishes: Wishes,
    /// What the Node says.
    annotations: Annotations,
    /// Somebody has told what it says.
    node_is_known: bool,
    /// What the kernel lacks for holding connections, if it lacks anything.
    lacks: Option<String>,
    /// Whether that was told.
    lacks_is_told: bool,
    teller: Teller,
    /// The modes that the Node gave last.
    modes: Option<Modes>,
    /// Whether the configuration is one that somebody wrote.
    trusted: bool,
    answered: mpsc::Sender<Event>,
    answers: mpsc::Receiver<Event>,
    permits: Arc<Semaphore>,
    sandboxes: Sandboxes,
    starts: Starts,
    announcements: mpsc::Receiver<Announcement>,
    /// Decisions to hand over when nothing else is to be done. While the second thread is stuck no list of the kubelet comes
    /// either, so there are no more than a few for each pod that is known.
    reports: VecDeque<Record>,
    /// Pods have come, gone or finished since they were counted.
    pods_changed: bool,
    /// What the engine said to the order that it is being told.
    reply: Option<Answer>,
}

impl NodeLoop {
    pub(crate) fn new(
        sources: Sources,
        host: Host,
        records: mpsc::Sender<Record>,
        metrics: Arc<Metrics>,
        loaded: Loaded,
        wishes: Wishes,
    ) -> Self {
        let Sources {
            discovery,
            announcements,
            starts,
            teller,
        } = sources;
        let (answered, answers) = mpsc::channel(ATTEMPTS);
        let begin = Instant::now();
        Self {
            sandboxes: Sandboxes::new(begin, answered.clone()),
            starts: Starts::new(starts, Arc::clone(&metrics)),
            announcements,
            engine: Engine::new(loaded.config),
            discovery,
            host: Arc::new(host),
            metrics,
            records,
            begin,
            wishes,
            annotations: Annotations::default(),
            node_is_known: false,
            lacks: None,
            lacks_is_told: false,
            teller,
            modes: None,
            trusted: loaded.trusted,
            answered,
            answers,
            permits: Arc::new(Semaphore::new(ATTEMPTS)),
            reports: VecDeque::new(),
            pods_changed: true,
            reply: None,
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
        let records = self.records.clone();
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
                    self.steps(events?);
                }
                // A pod's start waits for the answer.
                Some(announcement) = self.announcements.recv() => {
                    // The pod's cgroup came before.
                    let events = self.discovery.now()?;
                    self.steps(events);
                    let event = self.sandboxes.announced(&self.host, announcement);
                    self.steps(event);
                }
                // An app is about to be started.
                events = self.starts.next() => self.steps(events),
                answer = self.answers.recv() => if let Some(answer) = answer {
                    if let Event::Attempted { outcome, .. } = &answer {
                        self.metrics.attempts.inc(outcome);
                    }
                    self.step(answer);
                },
                input = inputs.recv() => match input {
                    Some(input) => self.take(input)?,
                    None => {
                        for record in self.reports {
                            // Nobody reads only when that thread has failed.
                            drop(self.records.send(record).await);
                        }
                        return Ok(());
                    }
                },
                () = timer => self.step(Event::Timer),
                // Attempts that are under way go first.
                () = tokio::task::yield_now(), if self.has_news() => self.tell_news(),
                // They are being written down more slowly than they come.
                permit = records.reserve(), if !self.reports.is_empty() => {
                    if let (Ok(permit), Some(record)) = (permit, self.reports.pop_front()) {
                        permit.send(record);
                    }
                }
            }
        }
    }

    fn has_news(&self) -> bool {
        self.pods_changed || !self.reports.is_empty() && self.records.capacity() > 0
    }

    /// Hands decisions over to be written down, and counts the pods.
    fn tell_news(&mut self) {
        while let Some(record) = self.reports.pop_front() {
            if let Err(TrySendError::Full(record)) = self.records.try_send(record) {
                self.reports.push_front(record);
                break;
            }
        }
        if mem::take(&mut self.pods_changed) {
            let census = self.engine.census();
            let gauge = |count| i64::try_from(count).unwrap_or(i64::MAX);
            self.metrics.pods.set(gauge(census.pods));
            self.metrics.finished_pods.set(gauge(census.finished));
            self.metrics.held_pods.set(gauge(census.held));
            self.metrics.held_starts.set(gauge(census.held_starts));
        }
    }

    fn step(&mut self, event: Event) {
        self.steps([event]);
    }

    /// Takes what has come at once.
    fn steps(&mut self, events: impl IntoIterator<Item = Event>) {
        // Read before it is asked who has ended: of an agent that is stopped anywhere after this, what it misses counts
        // in the next step.
        let now = self.now();
        let late = self.overdue(now);
        if let Some(late) = late {
            for key in self.discovery.dead() {
                self.step_at(late, Event::container(key, ContainerChange::Exited));
            }
        }
        for event in events {
            if let Event::Attempted { .. } = event {
                crash_point::reach("answer-due", "");
            }
            self.step_at(late.unwrap_or(now), event);
        }
        if late.is_some() {
            self.step_at(now, Event::Timer);
        }
    }

    fn step_at(&mut self, now: Timestamp, event: Event) {
        tracing::trace!(?event, "happened");
        match &event {
            Event::Kernel(features) => self.lacks = features.hold.clone().err(),
            Event::CannotHoldStarts(reason) => {
                let condition = NodeCondition::StartUnsupported(reason.clone());
                self.teller.node(&condition);
            }
            _ => {}
        }
        self.pods_changed |= matches!(event, Event::PodAppeared(_) | Event::PodGone(_));
        for action in self.engine.step(now, event) {
            self.act(action);
        }
    }
}
