//! The fixture of the scenarios: one pod, an engine, and a manual clock.

use std::{sync::Arc, time::Duration};

use crate::{
    Action, Decision, Engine, Event, NamespaceReply,
    base::{
        id::{ContainerId, ContainerKey, PodUid},
        time::Timestamp,
    },
    decision::Kind,
    engine::request::Answer,
    pod::{
        container_change::ContainerChange,
        exit_status::ExitStatus,
        restart_policy::RestartPolicy,
        spec::{Container, Pod, RunState, Status, plain},
    },
    quit::outcome::Outcome,
    recipe::step::Step,
    settings::{
        config::Config,
        mode::{Mode, Modes},
        overrides::NamespaceValues,
    },
};

pub(super) const PROXY: &str = "istio-proxy";

pub(crate) fn uid() -> PodUid {
    plain::pod(Vec::new()).uid
}

/// The container id for a short text.
pub(super) fn id(run: &str) -> ContainerId {
    let hex: String = run.bytes().map(|byte| format!("{byte:02x}")).collect();
    ContainerId::parse(&format!("{hex:0<64}")).unwrap()
}

pub(super) fn key(run: &str) -> ContainerKey {
    ContainerKey {
        pod: uid(),
        id: id(run),
    }
}

pub(crate) fn container(name: &str) -> Container {
    let image = if name == PROXY {
        "docker.io/istio/proxyv2:1.26.1"
    } else {
        "shop/report:1"
    };
    plain::container(name, image)
}

pub(crate) fn pod(restart_policy: RestartPolicy, apps: &[&str]) -> Pod {
    let names = apps.iter().copied().chain([PROXY]);
    Pod {
        restart_policy,
        ..plain::pod(names.map(container).collect())
    }
}

pub(super) fn status(pod: &mut Pod, name: &str, run: &str, state: RunState) {
    let found = pod.containers.iter_mut().find(|found| found.name == name);
    found.unwrap().status = Some(Status {
        id: Some(id(run)),
        state,
        last: None,
    });
}

pub(super) struct Stage {
    pub(super) engine: Engine,
    pub(super) now: Timestamp,
    pub(super) spec: Pod,
    /// The actions and decisions, as text.
    pub(super) done: Vec<String>,
    /// The same, with the decisions in `state_reports` and with each reason.
    pub(super) log: Vec<String>,
    /// The attempts without a reply.
    pub(super) attempts: Vec<(ContainerKey, Step)>,
    /// The sidecars with a prepared connection.
    pub(super) prepared: Vec<ContainerKey>,
    /// The engine has requested the kubelet's list; [`Stage::answer`] replies.
    pub(super) lists_pods: bool,
    /// Reports that the pod is waiting, not applicable or unsupported.
    pub(super) state_reports: Vec<String>,
    /// The settings of its Namespace; None while the API server is unavailable.
    pub(super) namespace: Option<NamespaceValues>,
    /// The API server does not respond: requests for a Namespace wait for [`Stage::read_namespace`].
    pub(super) is_namespace_pending: bool,
    /// Sidecars that received a version query.
    pub(super) version_queries: Vec<ContainerKey>,
    /// The number of requests for a Namespace.
    pub(super) fetched: usize,
    /// Actions and reports about connections.
    pub(super) hold: Vec<String>,
    pub(super) hold_mode: Mode,
    /// Answers to operators.
    pub(super) answers: Vec<Answer>,
    /// All actions.
    pub(super) actions: Vec<Action>,
}

impl Stage {
    /// A node on which nothing runs yet, in this mode.
    pub(super) fn new(mode: Mode, spec: Pod) -> Self {
        let mut stage = Self {
            engine: Engine::default(),
            now: Timestamp::new(Duration::from_secs(1000)),
            spec,
            done: Vec::new(),
            log: Vec::new(),
            attempts: Vec::new(),
            prepared: Vec::new(),
            lists_pods: false,
            state_reports: Vec::new(),
            namespace: Some(NamespaceValues::default()),
            is_namespace_pending: false,
            version_queries: Vec::new(),
            fetched: 0,
            hold: Vec::new(),
            hold_mode: Mode::Off,
            answers: Vec::new(),
            actions: Vec::new(),
        };
        stage.mode(mode);
        stage.send(Event::Walked);
        stage.answer_with(Vec::new());
        stage
    }

    pub(super) fn mode(&mut self, quit: Mode) {
        let hold = self.hold_mode;
        self.send(Event::Modes(Modes {
            quit,
            hold,
            linger: hold,
        }));
    }

    /// Replaces the configuration, and keeps the modes.
    pub(super) fn configure(&mut self, config: Config) {
        let (config, modes) = (Arc::new(config), self.engine.modes());
        self.send(Event::Configured { config, modes });
    }

    pub(super) fn send(&mut self, event: Event) {
        let actions = self.engine.step(self.now, event);
        let mut namespaces = Vec::new();
        self.actions.extend(actions.iter().cloned());
        for action in actions {
            if let Some(line) = super::hold::line(&action) {
                self.hold.push(line);
                continue;
            }
            self.log.extend(line(&action));
            self.done.push(match action {
                Action::FetchNamespace(name) => {
                    self.fetched += 1;
                    namespaces.push(name);
                    continue;
                }
                Action::AskVersion { key, .. } => {
                    self.version_queries.push(key);
                    continue;
                }
                Action::Report(Decision {
                    kind:
                        kind @ (Kind::NotApplicable(_)
                        | Kind::Waiting(_)
                        | Kind::RuntimeUnsupported { .. }),
                    ..
                }) => {
                    self.state_reports
                        .push(format!("{}: {}", kind.into_str(), kind.reason()));
                    continue;
                }
                Action::Prepare(key) => {
                    self.prepared.push(key);
                    continue;
                }
                Action::FetchPods => {
                    assert!(!self.lists_pods, "requested twice");
                    self.lists_pods = true;
                    continue;
                }
                Action::Answer { .. }
                | Action::Arm { .. }
                | Action::Watch { .. }
                | Action::ReleasePorts { .. }
                | Action::ReleaseAll { .. }
                | Action::Renew { .. }
                | Action::Forget { .. }
                | Action::Look { .. }
                | Action::HoldStarts { .. }
                | Action::Repair { .. }
                | Action::ReleaseStart { .. } => unreachable!("about connections"),
                Action::HoldStops { stops, .. } => {
                    let stops: Vec<String> = stops
                        .iter()
                        .map(|stop| match stop.is_observed {
                            true => format!("{} observed", stop.container),
                            false => format!("{} {:?}", stop.container, stop.limit),
                        })
                        .collect();
                    format!("stops [{}]", stops.join(", "))
                }
                Action::SampleTraffic { key, status_ports } => {
                    format!("sample {} without {status_ports:?}", text_of(&key))
                }
                Action::Reply(answer) => {
                    self.answers.push(answer);
                    continue;
                }
                Action::Attempt { key, step, .. } => {
                    let text = format!("{} {step}", text_of(&key));
                    self.attempts.push((key, step));
                    text
                }
                Action::Drain { key, request, .. } => {
                    format!("{} drain {request}", text_of(&key))
                }
                Action::Report(decision) => {
                    let what = decision.container.map(|name| format!("{name} "));
                    let next = match &decision.kind {
                        Kind::StepFailed { next, .. } => format!(
                            ", next {}",
                            next.as_ref().map_or("nothing".to_owned(), Step::to_string)
                        ),
                        Kind::SidecarEnded {
                            requested: true, ..
                        } => " as requested".to_owned(),
                        Kind::GaveUp { reason } => format!(": {reason:?}"),
                        Kind::Skipped { reason } => format!(": {reason:?}"),
                        _ => String::new(),
                    };
                    let kind = decision.kind.into_str();
                    format!("{}{kind}{next}", what.unwrap_or_default())
                }
            });
        }
        let wake = self.engine.next_wake();
        assert!(wake.is_none_or(|wake| wake > self.now), "a busy loop");
        namespaces.retain(|_name| !self.is_namespace_pending);
        for name in namespaces {
            self.read_namespace(name);
        }
    }

    /// The API server replies to a request for a Namespace.
    pub(super) fn read_namespace(&mut self, name: String) {
        let values = self.namespace.clone();
        let failed = NamespaceReply::Failed { last: None };
        let reply = values.map_or(failed, NamespaceReply::Read);
        self.send(Event::Namespace { name, reply });
    }

    pub(super) fn answer_with(&mut self, pods: Vec<Pod>) {
        self.now = self.now + Duration::from_millis(1);
        self.lists_pods = false;
        self.send(Event::Pods(pods));
    }

    /// The kubelet's list arrives, requested or not.
    pub(super) fn list(&mut self) {
        self.answer_with(vec![self.spec.clone()]);
    }

    pub(super) fn appear(&mut self, run: &str) {
        self.send(Event::container(key(run), ContainerChange::Appeared));
    }

    /// Starts a run of the container with this name.
    pub(super) fn start(&mut self, name: &str, run: &str) {
        self.appear(run);
        let name = Some(name.to_owned());
        let key = key(run);
        let of = key.clone();
        self.send(Event::container(key, ContainerChange::Started { name }));
        self.send(Event::container(of, ContainerChange::Executed));
    }

    pub(super) fn exit(&mut self, run: &str, code: u8) {
        self.send(Event::container(key(run), ContainerChange::Exited));
        let status = ExitStatus::Code(code);
        let key = key(run);
        self.send(Event::container(key, ContainerChange::ExitStatus(status)));
    }

    pub(super) fn outcome(&mut self, run: &str, outcome: Outcome) {
        let key = key(run);
        self.send(Event::Attempted { key, outcome });
    }

    /// The pod appears, its containers start, the kubelet lists it.
    pub(super) fn run_all(&mut self) {
        self.send(Event::PodAppeared(uid()));
        let names: Vec<_> = self
            .spec
            .containers
            .iter()
            .map(|c| c.name.clone())
            .collect();
        for name in names {
            self.start(&name.clone(), &run_of(&name));
        }
        self.list();
    }

    /// Advances the clock, with all timers; the kubelet replies to each request.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            if self.lists_pods {
                self.list();
            }
            let wake = self.engine.next_wake().filter(|wake| *wake <= end);
            let Some(wake) = wake else { break };
            self.now = wake.max(self.now);
            self.send(Event::Timer);
        }
        self.now = end.max(self.now);
    }

    /// The actions and decisions since the last call.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.done)
    }
}

/// The first run of a container: `app` has `a`, the proxy has `i`.
pub(super) fn run_of(name: &str) -> String {
    name[..1].to_owned()
}

/// The text of an action that concerns the pod.
fn line(action: &Action) -> Option<String> {
    match action {
        Action::Attempt { key, step, .. } => Some(format!("{} {step}", text_of(key))),
        Action::Report(Decision {
            container, kind, ..
        }) => {
            let name = container.as_ref().map(|name| format!("{name} "));
            let (name, what) = (name.unwrap_or_default(), kind.into_str());
            Some(format!("{name}{what}: {}", kind.reason()))
        }
        _ => None,
    }
}

/// The short text of a container id.
pub(super) fn text_of(key: &ContainerKey) -> String {
    let hex = key.id.as_str().trim_end_matches("00");
    let digits: Vec<char> = hex.chars().collect();
    digits
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).ok())
        .map(char::from)
        .collect()
}
