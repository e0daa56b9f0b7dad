//! The event loop: it passes everything that happens on the node to the engine, one event after the other, and carries
//! out the engine's actions.
//!
//! It runs on a thread of its own, with nothing else on it but discovery and attempts, so that a long list of pods or a
//! slow API server never delays the request that follows an exit.

mod actions;
mod input;
mod modes;
mod operator;
mod overdue;
mod records;
mod snapshot;

use std::{mem, sync::Arc, time::Instant};

use tokio::sync::{Semaphore, mpsc, watch};
use usher_client::crash_point;
use usher_core::{
    Engine, Event, base::time::Timestamp, engine::request::Answer, kube_event::NodeCondition,
    pod::container_change::ContainerChange,
};
use usher_sys::pods::cgroup;

pub(crate) use self::{
    input::{Input, View},
    operator::OperatorRequest,
};
use self::{modes::NodeState, records::Records};
use crate::{
    hold::{Sandboxes, cni_socket::Announcement},
    node::{config_file::Loaded, discovery::Discovery},
    quit::Host,
    start::{self, Starts},
    telemetry::{decision_log::Record, reporter::Reporter},
};

/// Attempts at the same time: each is a socket and a few kB. More wait.
const ATTEMPTS: usize = 256;

/// What the event loop requests from the service thread.
#[derive(Debug)]
pub(crate) struct Requests {
    /// List the kubelet's pods.
    pub(crate) pods: mpsc::Sender<()>,
    /// Read this Namespace.
    pub(crate) namespaces: mpsc::Sender<String>,
    /// Whether the CNI plugin is to be installed.
    pub(crate) plugin: watch::Sender<bool>,
}

/// The event loop's ends of the channels to the service thread.
#[derive(Debug)]
pub(crate) struct Channels {
    pub(crate) inputs: mpsc::Receiver<Input>,
    pub(crate) requests: Requests,
    pub(crate) records: mpsc::Sender<Record>,
}

/// What the event loop watches on the node, and acts upon.
#[derive(Debug)]
pub(crate) struct Edges {
    pub(crate) discovery: Discovery,
    pub(crate) announcements: mpsc::Receiver<Announcement>,
    pub(crate) starts: start::Settings,
    pub(crate) host: Host,
}

/// Attempts and gates, which run in tasks, and the events that they return.
#[derive(Debug)]
struct Tasks {
    permits: Arc<Semaphore>,
    events: mpsc::Sender<Event>,
    received: mpsc::Receiver<Event>,
}

#[derive(Debug)]
pub(crate) struct NodeLoop {
    engine: Engine,
    /// The moment that timestamps count from.
    started: Instant,
    node: NodeState,

    host: Arc<Host>,
    discovery: Discovery,
    announcements: mpsc::Receiver<Announcement>,
    sandboxes: Sandboxes,
    starts: Starts,
    tasks: Tasks,

    inputs: mpsc::Receiver<Input>,
    requests: Requests,
    records: Records,
    reporter: Reporter,
    /// Pods have appeared, gone or finished since the gauges were set.
    pods_changed: bool,
}

impl NodeLoop {
    pub(crate) fn new(
        edges: Edges,
        channels: Channels,
        reporter: Reporter,
        loaded: Loaded,
    ) -> Self {
        let (events, received) = mpsc::channel(ATTEMPTS);
        let started = Instant::now();
        Self {
            engine: Engine::new(loaded.config),
            started,
            node: NodeState::new(loaded.trusted),
            host: Arc::new(edges.host),
            discovery: edges.discovery,
            announcements: edges.announcements,
            sandboxes: Sandboxes::new(started, events.clone()),
            starts: Starts::new(edges.starts, reporter.clone()),
            tasks: Tasks {
                permits: Arc::new(Semaphore::new(ATTEMPTS)),
                events,
                received,
            },
            inputs: channels.inputs,
            requests: channels.requests,
            records: Records::new(channels.records),
            reporter,
            pods_changed: true,
        }
    }

    /// Runs until the inputs are closed, which is when the agent ends.
    ///
    /// # Errors
    /// When the cgroup tree cannot be watched any more.
    pub(crate) async fn run(mut self, events: Vec<Event>) -> Result<(), cgroup::Error> {
        for event in events {
            self.step(event);
        }
        let records = self.records.sender();
        loop {
            let wake = self
                .engine
                .next_wake()
                .map(|at| self.started + at.since_start());
            let timer = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Exits come first: quits follow from them.
                biased;
                events = self.discovery.next() => {
                    self.steps(events?);
                }
                // The start of a pod waits for the reply.
                Some(announcement) = self.announcements.recv() => {
                    // The pod's cgroup was created before.
                    let events = self.discovery.now()?;
                    self.steps(events);
                    let event = self.sandboxes.announced(&self.host, announcement);
                    self.steps(event);
                }
                // The runtime is about to start an app.
                events = self.starts.next() => {
                    self.steps(events);
                }
                Some(event) = self.tasks.received.recv() => {
                    if let Event::Attempted { outcome, .. } = &event {
                        self.reporter.metrics.attempts.inc(outcome);
                    }
                    self.step(event);
                }
                input = self.inputs.recv() => match input {
                    Some(input) => self.receive(input)?,
                    None => {
                        self.records.finish().await;
                        return Ok(());
                    }
                },
                () = timer => {
                    self.step(Event::Timer);
                }
                // Attempts in progress go first.
                () = tokio::task::yield_now(), if self.pods_changed || self.records.can_send() => {
                    self.records.send();
                    self.set_gauges();
                }
                // The recorder is slower than the decisions.
                permit = records.reserve(), if !self.records.is_empty() => {
                    if let Ok(permit) = permit {
                        self.records.send_with(permit);
                    }
                }
            }
        }
    }

    fn set_gauges(&mut self) {
        if !mem::take(&mut self.pods_changed) {
            return;
        }
        let census = self.engine.census();
        let metrics = &self.reporter.metrics;
        let gauge = |count| i64::try_from(count).unwrap_or(i64::MAX);
        metrics.pods.set(gauge(census.pods));
        metrics.finished_pods.set(gauge(census.finished));
        metrics.held_pods.set(gauge(census.held));
        metrics.held_starts.set(gauge(census.held_starts));
    }

    fn step(&mut self, event: Event) -> Option<Answer> {
        self.steps([event])
    }

    /// Passes events that arrived together to the engine. Returns its answer where one of them is an operator's
    /// request.
    fn steps(&mut self, events: impl IntoIterator<Item = Event>) -> Option<Answer> {
        // The clock is read before the dead are listed: what an agent misses that is stopped after this is overdue in
        // the next step.
        let now = self.now();
        let late = self.overdue(now);
        if let Some(late) = late {
            for key in self.discovery.dead() {
                self.step_at(late, Event::container(key, ContainerChange::Exited));
            }
        }
        let mut answer = None;
        for event in events {
            if let Event::Attempted { .. } = event {
                crash_point::reach("answer-due", "");
            }
            answer = self.step_at(late.unwrap_or(now), event).or(answer);
        }
        if late.is_some() {
            self.step_at(now, Event::Timer);
        }
        answer
    }

    fn step_at(&mut self, now: Timestamp, event: Event) -> Option<Answer> {
        tracing::trace!(?event, "received an event");
        match &event {
            Event::Kernel(features) => self.node.missing_feature = features.hold.clone().err(),
            Event::CannotHoldStarts(reason) => {
                let condition = NodeCondition::StartUnsupported(reason.clone());
                self.reporter.events.send_node(&condition);
            }
            _ => {}
        }
        self.pods_changed |= matches!(event, Event::PodAppeared(_) | Event::PodGone(_));
        let mut answer = None;
        for action in self.engine.step(now, event) {
            answer = self.act(action).or(answer);
        }
        answer
    }
}
