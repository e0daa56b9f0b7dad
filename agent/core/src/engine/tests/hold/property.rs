//! Invariants of held connections, for any events in any order.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;

use super::super::stage::{PROXY, id, pod, uid};
use crate::{
    Action, Engine, Event, NamespaceReply,
    base::{
        id::{ContainerKey, SandboxId},
        time::Timestamp,
    },
    cni::protocol::{PodName, Request},
    hold::{Features, Probe, Tally},
    pod::{
        container_change::ContainerChange, exit_status::ExitStatus, restart_policy::RestartPolicy,
        spec::Pod,
    },
    settings::{
        mode::{Mode, Modes},
        overrides::NamespaceValues,
    },
    start::StartResult,
};

const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
enum Step {
    Announce(u8),
    List,
    Start(usize),
    Exit(usize, u8),
    Ready,
    /// The edge carries out its pending actions, and reports success.
    Answer,
    /// The edge reports that its pending actions failed.
    Fail,
    Mode(Mode),
    Delete,
    Wait(u16),
    PodGone,
    /// The kernel denied the exec of the app.
    Denied,
    /// Whether the node can hold starts.
    Support(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..3u8).prop_map(Step::Announce),
        4 => Just(Step::List),
        6 => (0..NAMES.len()).prop_map(Step::Start),
        4 => (0..NAMES.len(), 0..2u8).prop_map(|(who, code)| Step::Exit(who, code)),
        2 => Just(Step::Ready),
        6 => Just(Step::Answer),
        1 => Just(Step::Fail),
        1 => prop_oneof![Just(Mode::Off), Just(Mode::Observe), Just(Mode::Enforce)].prop_map(Step::Mode),
        1 => Just(Step::Delete),
        3 => (1..20_000u16).prop_map(Step::Wait),
        1 => Just(Step::PodGone),
        1 => Just(Step::Denied),
        1 => any::<bool>().prop_map(Step::Support),
    ];
    prop::collection::vec(step, 1..60)
}

/// Two init containers, the app and the proxy.
const NAMES: [&str; 4] = ["first", "second", "app", PROXY];

/// The state of one sandbox at the edge.
#[derive(Debug, Default)]
struct Place {
    answered: u32,
    /// The start of the hold.
    held_since: Option<Timestamp>,
    arming: bool,
    releasing: bool,
    forgotten: bool,
}

struct World {
    engine: Engine,
    now: Timestamp,
    spec: Pod,
    mode: Mode,
    places: BTreeMap<SandboxId, Place>,
    /// The living run of each container.
    living: [Option<u32>; NAMES.len()],
    runs: u32,
    present: bool,
    /// The number of runs before the newest sandbox.
    announced: u32,
    /// The start of this sandbox's app, also after its exit.
    app_since: Option<Timestamp>,
    /// The requested holds of starts.
    wished: Vec<String>,
    denied: bool,
    supported: bool,
}

fn sandbox(number: u8) -> SandboxId {
    SandboxId::parse(&format!("{number:0>2}").repeat(32)).unwrap()
}

impl World {
    fn new() -> Self {
        let mut spec = pod(RestartPolicy::OnFailure, &["app"]);
        spec.init_containers = vec![NAMES[0].to_owned(), NAMES[1].to_owned()];
        let start = [("usher.dev/hold".to_owned(), "start".to_owned())];
        spec.annotations.extend(start);
        let mut world = Self {
            engine: Engine::default(),
            now: Timestamp::new(Duration::from_secs(1000)),
            spec,
            mode: Mode::Enforce,
            places: BTreeMap::new(),
            living: [None; NAMES.len()],
            runs: 0,
            present: true,
            announced: 0,
            app_since: None,
            wished: Vec::new(),
            denied: false,
            supported: true,
        };
        let modes = world.modes();
        world.send(Event::Modes(modes));
        world.send(Event::Kernel(Features {
            hold: Ok(()),
            dns: None,
            start: Ok(()),
        }));
        world.send(Event::Walked);
        world.send(Event::PodAppeared(uid()));
        world
    }

    fn modes(&self) -> Modes {
        Modes {
            quit: Mode::Off,
            hold: self.mode,
            linger: Mode::Off,
        }
    }

    fn send(&mut self, event: Event) {
        let mut namespaces = Vec::new();
        for action in self.engine.step(self.now, event) {
            match action {
                Action::FetchNamespace(name) => namespaces.push(name),
                Action::Answer { sandbox, .. } => {
                    self.places.entry(sandbox).or_default().answered += 1;
                }
                Action::Arm { sandbox, wanted } => {
                    let place = self.places.entry(sandbox).or_default();
                    assert!(!place.arming && !place.releasing && place.held_since.is_none());
                    assert!(!place.forgotten && !wanted.ports.is_empty());
                    place.arming = true;
                }
                Action::ReleaseAll { sandbox } => {
                    let place = self.places.entry(sandbox).or_default();
                    assert!(
                        place.held_since.is_some() && !place.releasing,
                        "nothing to release"
                    );
                    place.releasing = true;
                }
                Action::ReleasePorts { .. } => panic!("this pod has one held port"),
                Action::Renew { sandbox, .. } => {
                    let app = self.app_since.is_none_or(|since| since == self.now);
                    assert!(app, "a deadline is put off while an app may wait");
                    let place = self.places.entry(sandbox).or_default();
                    assert!(place.held_since.is_some() && !place.releasing);
                    place.held_since = Some(self.now);
                }
                Action::HoldStarts { starts, .. } => {
                    let names = starts.into_iter().map(|start| start.container);
                    self.wished = names.collect();
                }
                Action::Forget { sandbox } => {
                    let place = self.places.entry(sandbox).or_default();
                    *place = Place {
                        forgotten: true,
                        answered: place.answered,
                        ..Place::default()
                    };
                }
                _ => {}
            }
        }
        for name in namespaces {
            let reply = NamespaceReply::Read(NamespaceValues::default());
            self.send(Event::Namespace { name, reply });
        }
    }

    fn key(run: u32) -> ContainerKey {
        ContainerKey {
            pod: uid(),
            id: id(&format!("r{run}")),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Announce(number) => {
                let sandbox = sandbox(number);
                let fresh = self
                    .places
                    .get(&sandbox)
                    .is_none_or(|place| place.forgotten);
                if !fresh || !self.present {
                    return;
                }
                self.places.insert(sandbox.clone(), Place::default());
                self.announced = self.runs;
                self.app_since = None;
                self.send(Event::Sandbox(Request {
                    pod: PodName {
                        namespace: "shop".to_owned(),
                        name: "report".to_owned(),
                        uid: Some(uid()),
                    },
                    sandbox,
                    interface: "eth0".to_owned(),
                }));
            }
            Step::List => self.send(Event::Pods(vec![self.spec.clone()])),
            Step::Start(who) => {
                if self.living[who].is_some() || !self.present {
                    return;
                }
                self.runs += 1;
                self.living[who] = Some(self.runs);
                if NAMES[who] == "app" {
                    self.app_since.get_or_insert(self.now);
                }
                let key = Self::key(self.runs);
                self.send(Event::container(key.clone(), ContainerChange::Appeared));
                let name = Some(NAMES[who].to_owned());
                self.send(Event::container(key, ContainerChange::Started { name }));
            }
            Step::Exit(who, code) => {
                if let Some(run) = self.living[who].take() {
                    let key = Self::key(run);
                    self.send(Event::container(key.clone(), ContainerChange::Exited));
                    let status = ExitStatus::Code(code);
                    self.send(Event::container(key, ContainerChange::ExitStatus(status)));
                }
            }
            Step::Ready => {
                let held = self
                    .places
                    .iter()
                    .filter(|(_, place)| place.held_since.is_some());
                let sandboxes: Vec<SandboxId> = held.map(|(id, _)| id.clone()).collect();
                for sandbox in sandboxes {
                    let probe = Probe::Answers {
                        port: 15021,
                        path: "/healthz/ready".to_owned(),
                    };
                    self.send(Event::Ready { sandbox, probe });
                }
            }
            Step::Answer => self.answer(true),
            Step::Fail => self.answer(false),
            Step::Mode(mode) => {
                self.mode = mode;
                let modes = self.modes();
                self.send(Event::Modes(modes));
            }
            Step::Delete => {
                self.spec.deleting = true;
                self.take(Step::List);
            }
            Step::Wait(ms) => self.wait(Duration::from_millis(ms.into())),
            Step::Denied => {
                let Some(run) = self.living[2].filter(|_run| self.present) else {
                    return;
                };
                self.denied = true;
                self.send(Event::Start {
                    key: Self::key(run),
                    name: "app".to_owned(),
                    result: StartResult::Denied("EACCES".to_owned()),
                });
            }
            Step::Support(supported) => {
                self.supported = supported;
                self.send(Event::StartSupport(if supported {
                    Ok(())
                } else {
                    Err("refused".to_owned())
                }));
            }
            Step::PodGone => {
                self.present = false;
                self.send(Event::PodGone(uid()));
            }
        }
    }

    fn answer(&mut self, well: bool) {
        let sandboxes: Vec<SandboxId> = self.places.keys().cloned().collect();
        for sandbox in sandboxes {
            let now = self.now;
            let Some(place) = self.places.get_mut(&sandbox) else {
                continue;
            };
            if std::mem::take(&mut place.arming) {
                place.held_since = well.then_some(now);
                let result = if well { Ok(()) } else { Err("no".to_owned()) };
                self.send(Event::Armed { sandbox, result });
            } else if std::mem::take(&mut place.releasing) {
                place.held_since = None;
                let result = Ok(Tally::default());
                self.send(Event::Released { sandbox, result });
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(wake) = self.engine.next_wake().filter(|wake| *wake <= end) {
            self.now = wake.max(self.now);
            self.send(Event::Timer);
        }
        self.now = end;
    }

    fn check(&self) {
        let apps_only = self.wished.iter().all(|name| name == "app");
        assert!(apps_only, "others than apps: {:?}", self.wished);
        if !self.wished.is_empty() {
            assert!(
                self.mode == Mode::Enforce,
                "a start is held although it is off"
            );
            assert!(self.supported, "a start is held although the node cannot");
            assert!(!self.denied, "a start is held after a denied exec");
            let here = |place: &Place| !place.forgotten && !place.releasing;
            let here = self.places.values().any(here);
            assert!(here, "a start is held for ever");
        }
        let init_runs = self.living[0].is_some() || self.living[1].is_some();
        for place in self.places.values() {
            assert!(place.answered <= 1, "answered twice");
            let Some(since) = place.held_since.filter(|_| !place.releasing) else {
                continue;
            };
            assert!(!init_runs, "an init container waits for what waits for it");
            assert!(
                self.now.since(since) <= DEADLINE,
                "held beyond the deadline"
            );
            assert!(self.mode != Mode::Off, "held although it is off");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn connections_wait_for_a_bounded_time_and_never_those_of_init_containers(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
            world.check();
        }
        // At the end no hold is left.
        world.take(Step::List);
        for _ in 0..4 {
            world.answer(true);
        }
        world.wait(Duration::from_secs(40));
        world.answer(true);
        world.check();
        for place in world.places.values() {
            let no_app_waits = world.app_since.is_none();
            assert!(place.held_since.is_none() || no_app_waits, "held for ever");
        }

        // A start may stay held while the app or its init containers have not run.
        let app = world.living[2].filter(|run| *run > world.announced);
        let before = world.living[0].is_some() || world.living[1].is_some();
        let released = world.wished.is_empty() || app.is_none() || before;
        assert!(released, "a start is held for ever");
        world.take(Step::PodGone);
        for place in world.places.values() {
            assert!(place.forgotten, "a namespace stays open");
        }
    }
}
