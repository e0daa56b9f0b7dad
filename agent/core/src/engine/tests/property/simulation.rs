//! Runs one scenario against an engine: the kubelet starts and ends containers, the kernel and the kubelet's lists
//! report it, and each sidecar that the engine requests to quit quits.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::{
    Scenario,
    listed::{run, spec, status},
};
use crate::{
    Event,
    decision::Verb,
    engine::tests::{
        kubelet::{Happened, Kubelet, Move},
        stage::{Stage, key, text_of, uid},
    },
    pod::{
        container_change::ContainerChange,
        exit_status::ExitStatus,
        spec::{Pod, Status},
    },
    quit::outcome::Outcome,
    settings::mode::Mode,
};

pub(super) struct Simulation<'scenario> {
    scenario: &'scenario Scenario,
    pub(super) kubelet: Kubelet,
    spec: Pod,
    /// The states of the API server, oldest first; `oldest` is the first that a list may still have.
    published: Vec<Vec<Option<Status>>>,
    oldest: usize,
    /// Runs that received a quit request and exited.
    pending: BTreeMap<String, VecDeque<Event>>,
    stage: Option<Stage>,
    /// Runs that were requested to quit, and did.
    pub(super) requested: Vec<String>,
    /// Everything that happened, printed if the property fails.
    pub(super) trace: Vec<String>,
}

impl Simulation<'_> {
    pub(super) fn new(scenario: &Scenario) -> Simulation<'_> {
        Simulation {
            scenario,
            kubelet: Kubelet::new(scenario.members.clone()),
            spec: spec(&scenario.members),
            published: vec![vec![None; scenario.members.len()]],
            oldest: 0,
            pending: BTreeMap::new(),
            stage: None,
            requested: Vec::new(),
            trace: Vec::new(),
        }
    }

    /// Whether the name of a run is reported, and whether its exit code is.
    fn reported(&self, at: usize) -> (bool, bool) {
        let reported = &self.scenario.reported;
        reported[(at * 3 + self.kubelet.members[at].runs) % reported.len()]
    }

    fn happen(&mut self, happened: Option<Happened>) {
        let all = self.kubelet.members.iter();
        self.published.push(all.map(status).collect());
        let Some(happened) = happened else { return };
        let (Happened::Began(at) | Happened::Ended(at, _) | Happened::Lost(at)) = happened;
        let member = &self.kubelet.members[at];
        let number = member.runs - 1;
        if let (Happened::Began(_), Some(before)) = (happened, number.checked_sub(1)) {
            // The runtime has removed the run before it.
            let before = run(member, before);
            self.deliver_all_of(&before);
        }
        let member = &self.kubelet.members[at];
        let run = run(member, number);
        let key = key(&run);
        let (named, coded) = self.reported(at);
        match happened {
            Happened::Began(_) => {
                let name = named.then(|| member.name.clone());
                let started = Event::container(key.clone(), ContainerChange::Started { name });
                let executed = Event::container(key.clone(), ContainerChange::Executed);
                self.pending.insert(run, [started, executed].into());
                self.deliver(Event::container(key, ContainerChange::Appeared));
            }
            Happened::Lost(_) => {
                self.pending.insert(
                    run,
                    [Event::container(key.clone(), ContainerChange::Gone)].into(),
                );
                self.deliver(Event::container(key, ContainerChange::NotStarted));
            }
            Happened::Ended(_, code) => {
                let status = code.map_or(ExitStatus::Signal(9), ExitStatus::Code);
                let (of, gone) = (
                    key.clone(),
                    Event::container(key.clone(), ContainerChange::Gone),
                );
                let ended =
                    coded.then_some(Event::container(of, ContainerChange::ExitStatus(status)));
                // A run that ended before it was observed never started.
                self.pending
                    .insert(run, ended.into_iter().chain([gone]).collect());
                self.deliver(Event::container(key, ContainerChange::Exited));
            }
        }
    }

    fn deliver(&mut self, event: Event) {
        if let Some(stage) = &mut self.stage {
            self.trace.push(short(&event));
            stage.send(event);
            self.answer();
        }
    }

    /// Delivers the next event of one run.
    fn deliver_next_of(&mut self, run: &str) {
        let reported = self.pending.get_mut(run).and_then(VecDeque::pop_front);
        if matches!(
            reported,
            Some(Event::Container {
                change: ContainerChange::Gone,
                ..
            })
        ) {
            self.pending.remove(run);
        }
        if let Some(event) = reported {
            self.deliver(event);
        }
    }

    /// Delivers all pending events of one run.
    fn deliver_all_of(&mut self, run: &str) {
        while self
            .pending
            .get(run)
            .is_some_and(|events| !events.is_empty())
        {
            self.deliver_next_of(run);
        }
    }

    /// Delivers a list that is `newer` states newer than the last one.
    fn list(&mut self, newer: usize) {
        let Some(stage) = &mut self.stage else { return };
        self.oldest += newer;
        let statuses = self.published[self.oldest].iter();
        for (container, status) in self.spec.containers.iter_mut().zip(statuses) {
            container.status = status.clone();
        }
        let reported = self.published[self.oldest].iter();
        let reported = reported
            .zip(&self.scenario.members)
            .map(|(status, member)| {
                let state = status.as_ref().map(|status| status.state);
                format!("{} {state:?}", member.name)
            });
        self.trace
            .push(format!("list: {}", reported.collect::<Vec<_>>().join(", ")));
        stage.spec = self.spec.clone();
        stage.list();
        self.answer();
    }

    /// Every sidecar that receives a quit request exits.
    fn answer(&mut self) {
        let stage = self.stage.as_mut().unwrap();
        if self.scenario.manual {
            stage.request(Verb::Quit { force: false });
        }
        let attempts = std::mem::take(&mut stage.attempts);
        stage.log.clear();
        stage.done.clear();
        for (key, step) in attempts {
            let requested = text_of(&key);
            let mut members = self.kubelet.members.iter();
            let at = members
                .position(|member| member.runs > 0 && run(member, member.runs - 1) == requested)
                .unwrap();
            let member = &self.kubelet.members[at];
            self.trace.push(format!("requested: {requested} {step}"));
            let trace = || self.trace.join("\n");
            assert!(self.kubelet.is_finished(), "too early\n{}", trace());
            assert!(member.runs_now(), "the request was pointless\n{}", trace());
            let quits = !member.is_app && !member.restarts_after(0);
            assert!(quits, "it would come back\n{}", trace());
            self.requested.push(requested.clone());
            self.stage
                .as_mut()
                .unwrap()
                .outcome(&requested, Outcome::Accepted);
            let ended = self.kubelet.end(at, Some(0));
            self.happen(Some(ended));
        }
    }

    /// The agent starts on a node with these containers.
    fn start(&mut self) {
        // Of containers that ended before its start, the agent only observes the removal.
        for events in self.pending.values_mut() {
            events.retain(|event| {
                !matches!(
                    event,
                    Event::Container {
                        change: ContainerChange::ExitStatus(_),
                        ..
                    } | Event::Container {
                        change: ContainerChange::NotStarted,
                        ..
                    }
                )
            });
        }
        let mode = if self.scenario.manual {
            Mode::Observe
        } else {
            Mode::Enforce
        };
        self.stage = Some(Stage::new(mode, self.spec.clone()));
        self.deliver(Event::PodAppeared(uid()));
        for run in self.pending.keys().cloned().collect::<Vec<_>>() {
            self.deliver(Event::container(key(&run), ContainerChange::Appeared));
        }
        for at in 0..self.kubelet.members.len() {
            let member = &self.kubelet.members[at];
            if !member.runs_now() {
                continue;
            }
            let run = run(member, member.runs - 1);
            let name = self.reported(at).0.then(|| member.name.clone());
            let mut pending = self.pending[&run].iter();
            if !pending.any(|event| {
                matches!(
                    event,
                    Event::Container {
                        change: ContainerChange::Started { .. },
                        ..
                    }
                )
            }) {
                let key = key(&run);
                let executed = Event::container(key.clone(), ContainerChange::Executed);
                self.pending.insert(run, [executed].into());
                self.deliver(Event::container(key, ContainerChange::Started { name }));
            }
        }
    }

    fn moves_without_losses(&self) -> Vec<Move> {
        let mut moves = self.kubelet.moves();
        moves.retain(|this| !matches!(this, Move::Lose(_)));
        moves
    }

    pub(super) fn run_all(&mut self) {
        let mut restarting = false;
        for (number, (what, age)) in self.scenario.picks.iter().enumerate() {
            restarting = self.kubelet.restarts_all() || restarting && !self.kubelet.is_settled();
            if self.stage.is_none() && restarting {
                self.oldest = self.published.len();
            } else if self.stage.is_none() && number >= self.scenario.start {
                self.oldest = self.oldest.min(self.published.len() - 1);
                self.start();
            }
            let moves = match self.stage {
                Some(_) => self.kubelet.moves(),
                None => self.moves_without_losses(),
            };
            let mut runs = self.pending.iter().filter(|(_, events)| !events.is_empty());
            let deliverable = runs.clone().count();
            match what % (moves.len() + deliverable + 1) {
                at if at < moves.len() => {
                    let happened = self.kubelet.make(moves[at]);
                    self.happen(happened);
                }
                at if at < moves.len() + deliverable => {
                    let (run, _) = runs.nth(at - moves.len()).unwrap();
                    let run = run.clone();
                    self.deliver_next_of(&run);
                }
                _ if self.stage.is_some() => self.list(age % (self.published.len() - self.oldest)),
                _ => {}
            }
        }
        self.finish(restarting);
    }

    fn finish(&mut self, mut restarting: bool) {
        let mut steps = 0;
        while (self.scenario.to_the_end || self.stage.is_none() && restarting)
            && let Some(next) = self.moves_without_losses().last()
        {
            let happened = self.kubelet.make(*next);
            self.happen(happened);
            restarting = self.kubelet.restarts_all() || restarting && !self.kubelet.is_settled();
            steps += 1;
            assert!(steps < 1000, "it never ends");
        }
        if self.stage.is_none() {
            self.start();
        }
        for run in self.pending.keys().cloned().collect::<Vec<_>>() {
            self.deliver_all_of(&run);
        }
        // Lists are current from now on.
        for _ in 0..4 {
            self.list(self.published.len() - 1 - self.oldest);
            self.stage.as_mut().unwrap().pass(Duration::from_secs(10));
            self.answer();
            for run in self.pending.keys().cloned().collect::<Vec<_>>() {
                self.deliver_all_of(&run);
            }
        }
    }
}

/// An event in a few words, for a failure's trace.
fn short(event: &Event) -> String {
    match event {
        Event::Container {
            key,
            change: ContainerChange::Appeared,
        } => format!("{} appeared", text_of(key)),
        Event::Container {
            key,
            change: ContainerChange::Started { name },
        } => format!("{} started as {name:?}", text_of(key)),
        Event::Container {
            key,
            change: ContainerChange::Exited,
        } => format!("{} exited", text_of(key)),
        Event::Container {
            key,
            change: ContainerChange::ExitStatus(status),
        } => format!("{} had {status}", text_of(key)),
        Event::Container {
            key,
            change: ContainerChange::NotStarted,
        } => format!("{} was lost", text_of(key)),
        Event::Container {
            key,
            change: ContainerChange::Gone,
        } => format!("{} gone", text_of(key)),
        other => format!("{other:?}"),
    }
}
