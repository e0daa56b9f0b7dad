//! A stage for scenes: one pod, an engine, and a manual clock.

use std::time::Duration;

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
        mode::{Mode, Modes},
        overrides::NamespaceValues,
    },
};

pub(super) const PROXY: &str = "istio-proxy";

pub(crate) fn uid() -> PodUid {
    plain::pod(Vec::new()).uid
}

/// The container id that stands for a short text.
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
    /// Everything that was done, as text.
    pub(super) done: Vec<String>,
    /// The same with all stances, and each decision with its reason.
    pub(super) log: Vec<String>,
    /// The attempts among it, which have no reply yet.
    pub(super) attempts: Vec<(ContainerKey, Step)>,
    /// What was made ready.
    pub(super) prepared: Vec<ContainerKey>,
    /// A request to the kubelet is waiting for [`Stage::answer`].
    pub(super) asked: bool,
    /// What was thought of the pod, in words.
    pub(super) stances: Vec<String>,
    /// What its Namespace says; None while the API server is away.
    pub(super) namespace: Option<NamespaceValues>,
    /// Sidecars that were asked for their version.
    pub(super) questions: Vec<ContainerKey>,
    /// How often a Namespace was requested for.
    pub(super) fetched: usize,
    /// Actions and reports about connections.
    pub(super) hold: Vec<String>,
    /// Whether connections are held.
    pub(super) hold_mode: Mode,
    /// Answers to operators.
    pub(super) answers: Vec<Answer>,
    /// Everything that was done.
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
            asked: false,
            stances: Vec::new(),
            namespace: Some(NamespaceValues::default()),
            questions: Vec::new(),
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
                    self.questions.push(key);
                    continue;
                }
                Action::Report(Decision {
                    kind:
                        kind @ (Kind::NotApplicable(_)
                        | Kind::Waiting(_)
                        | Kind::RuntimeUnsupported { .. }),
                    ..
                }) => {
                    self.stances
                        .push(format!("{}: {}", kind.as_str(), kind.reason()));
                    continue;
                }
                Action::Prepare(key) => {
                    self.prepared.push(key);
                    continue;
                }
                Action::FetchPods => {
                    assert!(!self.asked, "asked twice");
                    self.asked = true;
                    continue;
                }
                Action::Answer { .. }
                | Action::Arm { .. }
                | Action::Watch { .. }
                | Action::OpenSome { .. }
                | Action::OpenAll { .. }
                | Action::Renew { .. }
                | Action::Forget { .. }
                | Action::Look { .. }
                | Action::HoldStarts { .. }
                | Action::Mend { .. }
                | Action::ReleaseStart { .. } => unreachable!("about connections"),
                Action::HoldStops { stops, .. } => {
                    let stops: Vec<String> = stops
                        .iter()
                        .map(|stop| format!("{} {:?}", stop.container, stop.limit))
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
                        Kind::SidecarEnded { asked: true, .. } => " as requested".to_owned(),
                        Kind::GaveUp { reason } => format!(": {reason:?}"),
                        Kind::Skipped { reason } => format!(": {reason:?}"),
                        _ => String::new(),
                    };
                    let kind = decision.kind.as_str();
                    format!("{}{kind}{next}", what.unwrap_or_default())
                }
            });
        }
        let wake = self.engine.next_wake();
        assert!(wake.is_none_or(|wake| wake > self.now), "a busy loop");
        for name in namespaces {
            let values = self.namespace.clone();
            let failed = NamespaceReply::Failed { last: None };
            let reply = values.map_or(failed, NamespaceReply::Read);
            self.send(Event::Namespace { name, reply });
        }
    }

    pub(super) fn answer_with(&mut self, pods: Vec<Pod>) {
        self.now = self.now + Duration::from_millis(1);
        self.asked = false;
        self.send(Event::Pods(pods));
    }

    /// The kubelet gives its pods, asked or not.
    pub(super) fn list(&mut self) {
        self.answer_with(vec![self.spec.clone()]);
    }

    pub(super) fn appear(&mut self, run: &str) {
        self.send(Event::container(key(run), ContainerChange::Appeared));
    }

    /// A container of this name starts; its run has the name's initials.
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

    /// Lets time pass, with all its timers; the kubelet answers when asked.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            if self.asked {
                self.list();
            }
            let wake = self.engine.next_wake().filter(|wake| *wake <= end);
            let Some(wake) = wake else { break };
            self.now = wake.max(self.now);
            self.send(Event::Timer);
        }
        self.now = end.max(self.now);
    }

    /// What was done since the last call.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.done)
    }
}

/// The first run of a container: `app` has `a`, the proxy has `i`.
pub(super) fn run_of(name: &str) -> String {
    name[..1].to_owned()
}

/// What an action says, if it says something about the pod.
fn line(action: &Action) -> Option<String> {
    match action {
        Action::Attempt { key, step, .. } => Some(format!("{} {step}", text_of(key))),
        Action::Report(Decision {
            container, kind, ..
        }) => {
            let name = container.as_ref().map(|name| format!("{name} "));
            let (name, what) = (name.unwrap_or_default(), kind.as_str());
            Some(format!("{name}{what}: {}", kind.reason()))
        }
        _ => None,
    }
}

/// The short text that a container id stands for.
pub(super) fn text_of(key: &ContainerKey) -> String {
    let hex = key.id.as_str().trim_end_matches("00");
    let digits: Vec<char> = hex.chars().collect();
    digits
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).ok())
        .map(char::from)
        .collect()
}
