//! The event loop: passes every event of the node to the engine, one after the other, and carries out the engine's
//! actions.
//!
//! It runs on a separate thread with nothing but discovery, so that a long list of pods or a slow API server never
//! delays the request that follows an exit.

mod actions;
mod input;
mod modes;
mod operator;
mod overdue;
mod snapshot;

use std::{collections::BTreeSet, mem, time::Instant};

use tokio::sync::{mpsc, oneshot, watch};
use usher_client::{backoff, crash_point};
use usher_core::{
    Action, Engine, Event, base::id::PodUid, base::id::SandboxId, engine::request::Answer,
    hold::Features, kube_event::NodeCondition, pod::container_change::ContainerChange,
    worker::message::Job,
};
use usher_sys::{pods::cgroup, process::child::Launch};

pub(crate) use self::{
    input::{Input, View},
    operator::AdminRequest,
};
use self::{
    modes::NodeState,
    operator::{BusyRequest, PendingHold},
    overdue::Overdue,
};
use crate::{
    hold::{Sandboxes, cni_socket::Announcement},
    node::{config_file::Loaded, discovery::Discovery},
    quit::{self, Host},
    start::{self, Starts},
    telemetry::{decision_log::Record, reporter::Reporter},
    worker::Worker,
};

/// What the event loop requests from the service thread.
#[derive(Debug)]
pub(crate) struct Requests {
    /// Requests the kubelet's pods. The set names the finished pods that the list must include.
    pub(crate) pods: mpsc::Sender<BTreeSet<PodUid>>,
    pub(crate) namespaces: mpsc::Sender<String>,
    /// Whether the CNI plugin must be installed.
    pub(crate) plugin: watch::Sender<bool>,
}

/// The event loop's ends of the channels to the service thread.
#[derive(Debug)]
pub(crate) struct Channels {
    pub(crate) inputs: mpsc::Receiver<Input>,
    pub(crate) requests: Requests,
    pub(crate) records: mpsc::UnboundedSender<Record>,
}

/// Sources of events on the node, and the targets of actions.
#[derive(Debug)]
pub(crate) struct Edges {
    /// The pending probe of the kernel; None if its features are already known.
    pub(crate) kernel: Option<oneshot::Receiver<Features>>,
    pub(crate) discovery: Discovery,
    pub(crate) announcements: mpsc::Receiver<Announcement>,
    pub(crate) starts: start::Settings,
    pub(crate) host: Host,
    pub(crate) worker: Launch,
}

#[derive(Debug)]
pub(crate) struct NodeLoop {
    engine: Engine,
    /// The moment that timestamps count from.
    started: Instant,
    node: NodeState,

    host: Host,
    /// None once the kernel's features are known.
    kernel: Option<oneshot::Receiver<Features>>,
    discovery: Discovery,
    announcements: mpsc::Receiver<Announcement>,
    sandboxes: Sandboxes,
    starts: Starts,
    worker: Worker,
    /// Operators' requests for a hold that have no reply yet.
    pending_holds: Vec<PendingHold>,
    busy_requests: Vec<BusyRequest>,

    inputs: mpsc::Receiver<Input>,
    requests: Requests,
    /// Decisions for the recorder. They are sent only when the event loop is idle, so that a request that follows an exit
    /// never waits for a log line.
    records: Vec<Record>,
    recorder: mpsc::UnboundedSender<Record>,
    reporter: Reporter,
    /// Whether a pod appeared, disappeared or finished since the gauges were set.
    pods_changed: bool,
    overdue: Overdue,
}

impl NodeLoop {
    pub(crate) fn new(
        edges: Edges,
        channels: Channels,
        reporter: Reporter,
        loaded: Loaded,
    ) -> Self {
        let started = Instant::now();
        Self {
            node: NodeState::new(loaded.config.modes, loaded.trusted, edges.host.is_certain),
            engine: Engine::new(loaded.config),
            started,
            kernel: edges.kernel,
            discovery: edges.discovery,
            announcements: edges.announcements,
            sandboxes: Sandboxes::default(),
            starts: Starts::new(edges.starts, reporter.clone()),
            worker: Worker::new(edges.worker, started, reporter.clone()),
            pending_holds: Vec::new(),
            busy_requests: Vec::new(),
            host: edges.host,
            inputs: channels.inputs,
            requests: channels.requests,
            records: Vec::new(),
            recorder: channels.records,
            reporter,
            pods_changed: true,
            overdue: Overdue::default(),
        }
    }

    /// Runs until the agent closes the inputs.
    pub(crate) async fn run(mut self, events: Vec<Event>) -> Result<(), cgroup::Error> {
        for event in events {
            self.step(event);
        }
        loop {
            self.retry_busy_requests();
            let wake = self.next_wake();
            tokio::select! {
                // Exits have priority, because quits follow from them.
                biased;
                events = self.discovery.next() => {
                    self.steps(events?);
                }
                // The runtime does not start the pod before the reply.
                Some(announcement) = self.announcements.recv() => {
                    // The runtime created the pod's cgroup before it called the plugin.
                    let events = self.discovery.now()?;
                    self.steps(events);
                    let event = self.sandboxes.announced(&mut self.worker, &self.host, announcement);
                    self.steps(event);
                }
                features = next_features(&mut self.kernel) => {
                    self.step(Event::Kernel(features));
                    // A slow probe ends after the modes were applied.
                    self.report_support(self.engine.modes());
                }
                // The runtime is about to start an app.
                events = self.starts.next() => {
                    self.steps(events);
                }
                news = self.worker.next() => self.receive_news(news),
                input = self.inputs.recv() => match input {
                    Some(input) => self.receive(input)?,
                    None => {
                        self.send_records();
                        return Ok(());
                    }
                },
                () = backoff::wait_until(wake) => self.wake(),
                // Lower priority than attempts in progress.
                () = tokio::task::yield_now(), if self.pods_changed || !self.records.is_empty() => {
                    self.send_records();
                    self.set_gauges();
                }
            }
        }
    }

    fn send_records(&mut self) {
        for record in self.records.drain(..) {
            // Fails only when the recorder has ended.
            drop(self.recorder.send(record));
        }
    }

    fn set_gauges(&mut self) {
        if !mem::take(&mut self.pods_changed) {
            return;
        }
        let census = self.engine.census();
        let metrics = &self.reporter.metrics;
        let gauge = |count| i64::try_from(count).unwrap_or(i64::MAX);
        metrics.pods.set(gauge(census.seen));
        metrics.finished_pods.set(gauge(census.finished));
        metrics.gave_up_pods.set(gauge(census.gave_up));
        metrics.held_pods.set(gauge(census.held));
        metrics.held_starts.set(gauge(census.held_starts));
        metrics.held_stops.set(gauge(census.held_stops));
        metrics.quarantined_pods.set(gauge(census.quarantined));
    }

    fn step(&mut self, event: Event) -> Option<Answer> {
        self.steps([event])
    }

    /// Passes events that arrived together to the engine, and carries out its actions. Returns the engine's answer where
    /// one of the events is an operator's request.
    fn steps(&mut self, events: impl IntoIterator<Item = Event>) -> Option<Answer> {
        // Read the clock before the list of exits: if the agent is suspended after this line, the missed timer is
        // overdue in the next step.
        let now = self.now();
        let late = self.late_since(now);
        let missed_exits = match late.is_some() || self.overdue.is_over() {
            true => self.discovery.dead(),
            false => Vec::new(),
        };
        let events = missed_exits
            .into_iter()
            .map(|key| Event::container(key, ContainerChange::Exited))
            .chain(events);
        let mut answer = None;
        for event in events {
            self.note(&event);
            let at = late.filter(|_late| event.is_end()).unwrap_or(now);
            for action in self.engine.apply(at, event) {
                answer = self.act(action).or(answer);
            }
        }
        if !self.overdue.postpone(late.is_some()) {
            for action in self.engine.run_timers(now) {
                self.act(action);
            }
        }
        self.settle_holds();
        answer
    }

    /// Updates the event loop's own state from an event.
    fn note(&mut self, event: &Event) {
        tracing::trace!(?event, "received an event");
        self.sandboxes.note(&mut self.worker, event);
        match event {
            Event::Attempted { .. } => {
                // The engine may have kept a removed pod only for this outcome.
                self.pods_changed = true;
                crash_point::reach("answer-due", "");
            }
            Event::Kernel(features) => self.node.missing_feature = features.hold.clone().err(),
            // The worker may have opened the sandbox nevertheless.
            Event::NotFound { key } => {
                if let Ok(sandbox) = SandboxId::parse(key.id.as_str()) {
                    self.sandboxes.not_found(&mut self.worker, &sandbox);
                }
            }
            Event::TrafficSampled {
                key,
                sample: Err(error),
            } => {
                tracing::warn!(error, uid = %key.pod, container_id = %key.id, "could not sample the traffic of a pod; a stop signal that waits for it is released after the least time");
            }
            Event::TrafficSampled {
                key,
                sample: Ok(sample),
            } => {
                tracing::debug!(?sample, uid = %key.pod, container_id = %key.id, "sampled the traffic of a pod");
            }
            Event::StartSupport(Err(reason)) => {
                let condition = NodeCondition::StartHoldUnsupported(reason.clone());
                self.reporter.events.send_node(&condition);
            }
            Event::PodAppeared(_) | Event::PodGone(_) => self.pods_changed = true,
            _ => {}
        }
    }

    /// Carries out an action. Returns the engine's answer if the action replies to an operator.
    fn act(&mut self, action: Action) -> Option<Answer> {
        let kind = action.kind();
        let _entered = self.span(&action).entered();
        crash_point::reach("before", kind);
        self.pods_changed |= matches!(
            action,
            Action::Report(_)
                | Action::Arm { .. }
                | Action::Forget { .. }
                | Action::HoldStarts { .. }
                | Action::HoldStops { .. }
        );
        let mut answer = None;
        match action {
            Action::Reply(reply) => answer = Some(reply),
            // Cannot be full: the engine never requests the pods twice at a time.
            Action::FetchPods => drop(self.requests.pods.try_send(self.engine.pods_on_node())),
            Action::FetchNamespace(name) => self.request_namespace(name),
            Action::Report(decision) => self.records.push(Record::now(decision)),
            Action::Answer { sandbox, reply } => self.sandboxes.answer(&sandbox, &reply),
            Action::Arm { sandbox, wanted } => {
                let failed = self.sandboxes.arm(&mut self.worker, sandbox, wanted);
                self.follow_up(failed);
            }
            Action::Watch { sandbox, probes } => {
                self.sandboxes.probe(&mut self.worker, &sandbox, probes);
            }
            Action::ReleasePorts { sandbox, ports } => {
                self.change(sandbox, |sandbox| Job::ReleasePorts { sandbox, ports });
            }
            Action::ReleaseAll { sandbox } => {
                self.change(sandbox, |sandbox| Job::ReleaseAll { sandbox });
            }
            Action::Renew {
                sandbox,
                ports,
                timeout,
            } => self.change(sandbox, |sandbox| Job::Renew {
                sandbox,
                ports,
                timeout,
            }),
            Action::Repair { sandbox, wanted } => {
                self.change(sandbox, |sandbox| Job::Repair { sandbox, wanted });
            }
            Action::Forget { sandbox } => self.sandboxes.forget(&mut self.worker, &sandbox),
            Action::Look { key } => self.look(&key),
            Action::HoldStarts { pod, starts } => {
                let events = self.starts.set(&pod, starts);
                self.follow_up(events);
            }
            Action::ReleaseStart { key } => self.starts.release(&key.id),
            Action::HoldStops { pod, stops } => {
                let events = self.starts.set_stops(&pod, stops);
                self.follow_up(events);
            }
            Action::SampleTraffic { key, status_ports } => self.sample_traffic(key, status_ports),
            Action::Prepare(key) => self.prepare(&key),
            Action::AskVersion { key, request } => self.ask_version(key, request),
            Action::Drain {
                key,
                request,
                timeout,
            } => {
                let sidecar = self.discovery.sidecar(&key);
                tracing::debug!(container_id = %key.id, %request, "draining");
                quit::drain(&self.host, &mut self.worker, key, sidecar, request, timeout);
            }
            Action::Attempt { key, step, timeout } => {
                let sidecar = self.discovery.take_attempt(&key);
                tracing::debug!(container_id = %key.id, %step, "trying a step");
                quit::attempt(&self.host, &mut self.worker, key, sidecar, step, timeout);
            }
        }
        crash_point::reach("after", kind);
        answer
    }
}

/// Waits for the kernel's features, and returns them once. The future may be dropped at any time.
async fn next_features(kernel: &mut Option<oneshot::Receiver<Features>>) -> Features {
    if let Some(probe) = kernel {
        // Terminated if the probe failed while the start waited for it.
        let found = match probe.is_terminated() {
            false => probe.await.ok(),
            true => None,
        };
        *kernel = None;
        if let Some(features) = found {
            return features;
        }
        tracing::error!("the probe of the kernel failed; pods start unheld");
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn failed_probe_of_the_kernel_ends_nothing() {
        let (found, mut probe) = oneshot::channel();
        drop(found);
        let at_the_start = timeout(Duration::from_millis(1), &mut probe).await;
        assert!(at_the_start.unwrap().is_err());
        let mut kernel = Some(probe);
        for _ in 0..2 {
            let later = timeout(Duration::from_millis(1), next_features(&mut kernel)).await;
            assert!(later.is_err());
        }
    }
}
