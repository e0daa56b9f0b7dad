//! The loop that decides: everything that happens on the node goes through the
//! engine, one event after the other, and what it asks for is done.
//!
//! It has a thread of its own, on which nothing else runs but discovery and
//! attempts, so that a long list of pods or a slow API server never stands
//! between an exit and its request.

use std::{
    collections::VecDeque,
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{
    Semaphore,
    mpsc::{self, error::TrySendError},
    oneshot,
};
use usher_core::{
    Action, Engine, Event,
    config::Config,
    event::{ContainerKey, Outcome},
    mode::{Mode, Modes},
    pod::Pod,
    step::Step,
    time::Timestamp,
    tuning::NamespaceValues,
};
use usher_sys::{cgroup, container::Init};

use crate::{
    attempt::{self, Host, Target},
    config_file::Loaded,
    discovery::Discovery,
    metrics::Metrics,
    recorder::Record,
    run_dir::Annotations,
    telemetry::chain,
};

/// Attempts at the same time: each is a socket and a few kB. More wait.
const ATTEMPTS: usize = 256;

/// What comes from outside the node's kernel.
#[derive(Debug)]
pub(crate) enum Input {
    /// The Node's annotations.
    Node(Annotations),
    /// This configuration counts.
    Config(Arc<Config>),
    /// What a Namespace says; None when it could not be had.
    Namespace(String, Option<NamespaceValues>),
    /// The kubelet's pods; None when they could not be had.
    Pods(Option<Vec<Pod>>),
    /// Whoever sends this wants to know that the loop runs.
    Pulse(oneshot::Sender<()>),
}

/// What the loop wants to know from outside the node's kernel.
#[derive(Debug)]
pub(crate) struct Wishes {
    /// The kubelet's pods.
    pub(crate) pods: mpsc::Sender<()>,
    /// What this Namespace says.
    pub(crate) namespaces: mpsc::Sender<String>,
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
    /// Whether the configuration is one that somebody wrote.
    trusted: bool,
    answered: mpsc::Sender<Event>,
    answers: mpsc::Receiver<Event>,
    permits: Arc<Semaphore>,
    /// Decisions to hand over when nothing else is to be done.
    reports: VecDeque<Record>,
    /// Pods have come, gone or finished since they were counted.
    pods_changed: bool,
}

impl NodeLoop {
    pub(crate) fn new(
        discovery: Discovery,
        host: Host,
        records: mpsc::Sender<Record>,
        metrics: Arc<Metrics>,
        loaded: Loaded,
        wishes: Wishes,
    ) -> Self {
        let (answered, answers) = mpsc::channel(ATTEMPTS);
        Self {
            engine: Engine::new(loaded.config),
            discovery,
            host: Arc::new(host),
            metrics,
            records,
            begin: Instant::now(),
            wishes,
            annotations: Annotations::default(),
            trusted: loaded.trusted,
            answered,
            answers,
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
                    for event in events? {
                        self.step(event);
                    }
                }
                answer = self.answers.recv() => if let Some(answer) = answer {
                    if let Event::Attempted { outcome, .. } = &answer {
                        self.metrics.attempt(outcome.as_str());
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
        }
    }

    fn take(&mut self, input: Input) -> Result<(), cgroup::Error> {
        match input {
            Input::Node(annotations) => {
                self.annotations = annotations;
                self.take_modes();
            }
            Input::Config(config) => {
                self.step(Event::Configured(config));
                if !mem::replace(&mut self.trusted, true) {
                    self.take_modes();
                }
            }
            Input::Namespace(name, values) => self.step(Event::Namespace { name, values }),
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

    /// Reads the modes off the Node's annotations.
    fn take_modes(&mut self) {
        let (mut modes, bad) = Modes::from_annotations(&self.annotations);
        for bad in bad {
            tracing::warn!(error = %chain(&bad), "Node has an annotation that is not one");
        }
        if !self.trusted && modes.quit == Mode::Enforce {
            modes.quit = Mode::Observe;
        }
        tracing::info!(quit = %modes.quit, "took the Node's modes");
        self.metrics.mode("quit", modes.quit);
        self.step(Event::Modes(modes));
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
            Action::FetchPods => drop(self.wishes.pods.try_send(())),
            Action::FetchNamespace(name) => {
                // Full when very many Namespaces come at once: later again.
                if let Err(full) = self.wishes.namespaces.try_send(name) {
                    let name = full.into_inner();
                    self.step(Event::Namespace { name, values: None });
                }
            }
            Action::Report(decision) => {
                self.pods_changed = true;
                self.reports.push_back(Record::now(decision));
            }
            Action::Prepare(key) => self.prepare(&key),
            Action::AskVersion { key, port, path } => self.ask_version(key, port, path),
            Action::Attempt { key, step, timeout } => self.attempt(key, step, timeout),
        }
    }

    fn prepare(&mut self, key: &ContainerKey) {
        let Some(living) = self.discovery.living(key) else {
            return;
        };
        let target = Target {
            host: &self.host,
            key,
            init: &living.init,
            // Looked at when the socket is used.
            at_home: true,
        };
        match attempt::prepare(target) {
            Ok(socket) => living.socket = Some(socket),
            // The attempt will tell, if there is one.
            Err(outcome) => {
                tracing::debug!(uid = %key.pod, container_id = %key.id, ?outcome, "could not prepare");
            }
        }
    }

    /// Whether a container is in its pod's network namespace, as far as its
    /// neighbours tell.
    fn at_home(&self, key: &ContainerKey, init: Option<&Arc<Init>>) -> bool {
        init.is_none_or(|init| self.discovery.is_in_pod_netns(key, init.netns))
    }

    fn attempt(&mut self, key: ContainerKey, step: Step, timeout: Duration) {
        let living = self.discovery.living(&key);
        let living = living.map(|living| (Arc::clone(&living.init), living.socket.take()));
        let at_home = self.at_home(&key, living.as_ref().map(|(init, _socket)| init));
        let host = Arc::clone(&self.host);
        let permits = Arc::clone(&self.permits);
        let answered = self.answered.clone();
        tokio::spawn(async move {
            let outcome = match living {
                None => Outcome::Gone,
                Some((init, socket)) => {
                    // Never closed.
                    let _permit = permits.acquire().await;
                    let target = Target {
                        host: &host,
                        key: &key,
                        init: &init,
                        at_home,
                    };
                    target.attempt(socket, &step, timeout).await
                }
            };
            tracing::debug!(uid = %key.pod, container_id = %key.id, %step, ?outcome, "tried");
            // Nobody listens only when the agent is ending.
            drop(answered.send(Event::Attempted { key, outcome }).await);
        });
    }

    fn ask_version(&mut self, key: ContainerKey, port: u16, path: String) {
        let living = self.discovery.living(&key);
        let init = living.map(|living| Arc::clone(&living.init));
        let at_home = self.at_home(&key, init.as_ref());
        let host = Arc::clone(&self.host);
        let answered = self.answered.clone();
        tokio::spawn(async move {
            let body = match init {
                None => None,
                Some(init) => {
                    let target = Target {
                        host: &host,
                        key: &key,
                        init: &init,
                        at_home,
                    };
                    target.question(port, &path).await
                }
            };
            drop(answered.send(Event::VersionAnswered { key, body }).await);
        });
    }
}
