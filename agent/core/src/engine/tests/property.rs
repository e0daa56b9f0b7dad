//! Any order of events gives the same decision, and nothing is ever asked to
//! quit while an app container may come back.
//!
//! A pod is drawn with its policy and what each container does. Its events are
//! told in any order that the kernel could show them in, lists of the kubelet
//! come in between with statuses as old as they like to be, and the engine may
//! start at any moment.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;

use super::stage::{PROXY, Stage, id, key, pod, uid};
use crate::{
    Event,
    event::{ContainerKey, Outcome},
    mode::Mode,
    pod::{Ended, Pod, RunState, Status},
    policy::RestartPolicy,
    process::ExitStatus,
};

/// What one container does: the codes of its runs. The last run goes on for
/// ever when `runs_on`.
#[derive(Debug, Clone)]
struct Script {
    codes: Vec<u8>,
    runs_on: bool,
    /// The kernel tells neither name nor code.
    shy: bool,
}

#[derive(Debug, Clone)]
enum Tell {
    Kernel(Event),
    /// The container's status in the API becomes this.
    Status(String, Status),
}

#[derive(Debug, Clone)]
struct Play {
    policy: RestartPolicy,
    apps: Vec<Script>,
    /// Which container tells next.
    order: Vec<prop::sample::Index>,
    /// Before which tellings the kubelet gives a list.
    lists: Vec<prop::sample::Index>,
    /// Before which telling the engine starts.
    start: prop::sample::Index,
}

fn script() -> impl Strategy<Value = Script> {
    let codes = prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(42)], 1..4);
    (codes, any::<bool>(), any::<bool>()).prop_map(|(codes, runs_on, shy)| Script {
        codes,
        runs_on,
        shy,
    })
}

fn play() -> impl Strategy<Value = Play> {
    let policy = prop_oneof![
        Just(RestartPolicy::Never),
        Just(RestartPolicy::OnFailure),
        Just(RestartPolicy::Always)
    ];
    let indices = |count| prop::collection::vec(any::<prop::sample::Index>(), count);
    let apps = prop::collection::vec(script(), 1..3);
    (
        policy,
        apps,
        indices(0..60),
        indices(0..6),
        any::<prop::sample::Index>(),
    )
        .prop_map(|(policy, apps, order, lists, start)| Play {
            policy,
            apps,
            order,
            lists,
            start,
        })
}

fn comes_back(policy: RestartPolicy, code: u8) -> bool {
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => code != 0,
        RestartPolicy::Never => false,
    }
}

fn status(run: &str, state: RunState, last: Option<(&str, u8)>) -> Status {
    Status {
        id: Some(id(run)),
        state,
        last: last.map(|(run, code)| Ended {
            id: id(run),
            code: code.into(),
        }),
    }
}

/// What a container's life looks like, in order, and whether it ends for good.
fn life(name: &str, script: &Script, policy: RestartPolicy) -> (Vec<Tell>, bool) {
    let mut told = Vec::new();
    let mut before: Option<(String, u8)> = None;
    for (number, code) in script.codes.iter().enumerate() {
        let run = format!("{}{number}", &name[name.len() - 2..]);
        let key = key(&run);
        told.push(Tell::Kernel(Event::ContainerAppeared(key.clone())));
        if !script.shy {
            let name = Some(name.to_owned());
            let key = key.clone();
            told.push(Tell::Kernel(Event::ContainerStarted { key, name }));
        }
        let last = before.as_ref().map(|(run, code)| (run.as_str(), *code));
        told.push(Tell::Status(
            name.to_owned(),
            status(&run, RunState::Running, last),
        ));
        let is_last = number + 1 == script.codes.len();
        if script.runs_on && is_last {
            return (told, false);
        }
        told.push(Tell::Kernel(Event::ContainerExited(key.clone())));
        if !script.shy {
            let status = ExitStatus::Code(*code);
            let key = key.clone();
            told.push(Tell::Kernel(Event::ContainerStatus { key, status }));
        }
        told.push(Tell::Kernel(Event::ContainerGone(key)));
        let state = RunState::Terminated((*code).into());
        told.push(Tell::Status(name.to_owned(), status(&run, state, last)));
        if !comes_back(policy, *code) {
            return (told, true);
        }
        before = Some((run, *code));
    }
    // It waits to be started again.
    (told, false)
}

fn app_name(number: usize) -> String {
    format!("app-{number}x")
}

/// Plays to the end; gives whether the proxy was asked to quit. Panics when it
/// was asked too early.
fn perform(play: &Play) -> (bool, bool) {
    let names: Vec<String> = (0..play.apps.len()).map(app_name).collect();
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut spec: Pod = pod(play.policy, &refs);
    let mut lives: Vec<(Vec<Tell>, bool)> = play
        .apps
        .iter()
        .zip(&names)
        .map(|(script, name)| life(name, script, play.policy))
        .collect();
    let truly_finished = lives.iter().all(|(_told, ended)| *ended);
    let proxy = Script {
        codes: vec![0],
        runs_on: true,
        shy: false,
    };
    lives.push(life(PROXY, &proxy, play.policy));

    // Any interleaving that keeps each container's own order.
    let mut queues: Vec<_> = lives
        .into_iter()
        .map(|(told, _)| told.into_iter())
        .collect();
    let mut script = Vec::new();
    for pick in &play.order {
        let at = pick.index(queues.len());
        script.extend(queues[at].next());
    }
    script.extend(queues.into_iter().flatten());

    let start = play.start.index(script.len() + 1);
    let lists: Vec<usize> = play
        .lists
        .iter()
        .map(|at| at.index(script.len() + 1))
        .collect();
    // What the API says so far; a list may be any number of statuses behind.
    let mut stage: Option<Stage> = None;
    let mut present: BTreeMap<ContainerKey, Option<String>> = BTreeMap::new();
    let mut left = script
        .iter()
        .filter(|tell| matches!(tell, Tell::Kernel(Event::ContainerExited(_))))
        .count();
    let mut asked = false;
    for (at, tell) in script.iter().enumerate() {
        if at == start {
            stage = Some(begin(&spec, &present));
        }
        if lists.contains(&at)
            && let Some(stage) = &mut stage
        {
            stage.spec = spec.clone();
            stage.list();
        }
        match tell {
            Tell::Status(name, status) => {
                let found = spec.containers.iter_mut().find(|found| found.name == *name);
                found.unwrap().status = Some(status.clone());
            }
            Tell::Kernel(event) => {
                match event {
                    Event::ContainerAppeared(key) => {
                        present.insert(key.clone(), None);
                    }
                    Event::ContainerStarted { key, name } => {
                        present.insert(key.clone(), name.clone());
                    }
                    Event::ContainerGone(key) => {
                        present.remove(key);
                    }
                    Event::ContainerExited(_) => left -= 1,
                    _ => {}
                }
                if let Some(stage) = &mut stage {
                    stage.send(event.clone());
                }
            }
        }
        if let Some(stage) = &mut stage {
            let attempts = stage.take().iter().any(|done| done.contains("POST"));
            assert!(
                !attempts || truly_finished && left == 0,
                "too early: {stage:?}"
            );
            asked |= attempts;
        }
    }
    let mut stage = stage.unwrap_or_else(|| begin(&spec, &present));
    stage.spec = spec;
    stage.list();
    for _ in 0..5 {
        asked |= stage.take().iter().any(|done| done.contains("POST"));
        stage.outcome(&format!("{}0", &PROXY[PROXY.len() - 2..]), Outcome::Refused);
        stage.pass(Duration::from_secs(4));
    }
    asked |= stage.take().iter().any(|done| done.contains("POST"));
    (asked, truly_finished)
}

/// The engine starts on a node where these containers are.
fn begin(spec: &Pod, present: &BTreeMap<ContainerKey, Option<String>>) -> Stage {
    let mut stage = Stage::new(Mode::Enforce, spec.clone());
    stage.send(Event::PodAppeared(uid()));
    for (key, name) in present {
        stage.send(Event::ContainerAppeared(key.clone()));
        if name.is_some() {
            let (key, name) = (key.clone(), name.clone());
            stage.send(Event::ContainerStarted { key, name });
        }
    }
    stage
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?}", self.engine)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn asked_to_quit_if_and_only_if_finished(play in play()) {
        let (asked, finished) = perform(&play);
        prop_assert_eq!(asked, finished);
    }
}
