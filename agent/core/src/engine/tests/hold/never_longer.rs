//! No hold is longer than the sidecar needs: for every recipe and every condition in it, an app that retries connects at most
//! 2 s later than it would without usher, which is when the port has a listener.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::hold::*;
use crate::{
    plan::{Plan, version_query::VersionQueries},
    pod::spec::{Container, plain},
    recipe::{Condition, Recipe, builtin, tests::field},
    settings::{config::Config, overrides::NamespaceValues},
};

const GRACE: Duration = Duration::from_secs(2);

/// Makes the pod and its container match a condition of a recipe.
fn fulfil(condition: &Condition, pod: &mut Pod, container: &mut Container) {
    let Condition {
        version: _,
        flag,
        shell: _,
        env,
        variables,
        annotations,
        annotated,
        unannotated: _,
    } = condition;
    container.words.extend(flag.clone());
    container.env.extend(env.clone());
    let set = variables.iter().map(|name| (name.clone(), "x".to_owned()));
    container.env.extend(set);
    pod.annotations.extend(annotations.clone());
    let set = annotated.iter().map(|key| (key.clone(), "x".to_owned()));
    pod.annotations.extend(set);
}

/// A pod with one sidecar of a recipe. Each bit of `choices` decides about a condition or a setting of the recipe.
fn pod_with(recipe: &Recipe, version: u32, choices: u64) -> Pod {
    let mut pod = plain::pod(vec![plain::container("app", "shop/app:1")]);
    let way = recipe.recognize.first().unwrap();
    let first = |patterns: &[crate::recipe::Pattern], default: &str| {
        let pattern = patterns.first().map(|one| one.as_str().replace('*', ""));
        pattern.unwrap_or_else(|| default.to_owned())
    };
    let image = format!("r/{}:1.{version}.0", first(&way.images, "x"));
    let mut sidecar = plain::container(&first(&way.names, "sidecar"), &image);
    sidecar.words = way.args.clone();
    fulfil(&way.when, &mut pod, &mut sidecar);
    let mut bits = (0..64).map(|bit| choices >> bit & 1 == 1);
    for condition in recipe.hold.conditions() {
        if bits.next().unwrap_or_default() {
            fulfil(condition, &mut pod, &mut sidecar);
        }
    }
    for (number, port) in recipe.hold.ports().enumerate() {
        let value = match (bits.next(), bits.next()) {
            (Some(true), Some(true)) => "0".to_owned(),
            (Some(true), _) => (20_000 + number).to_string(),
            _ => continue,
        };
        let sources = port.sources();
        if let Some(key) = sources.annotations.first().filter(|key| !key.contains('#')) {
            pod.annotations.insert(key.clone(), value);
        } else if let Some(name) = sources.env.first().filter(|name| !name.contains('#')) {
            sidecar.env.insert(name.clone(), value);
        } else if let Some(flag) = sources.args.first().filter(|flag| !flag.starts_with('?')) {
            sidecar.words.push(format!("{flag}={value}"));
        }
    }
    pod.containers.push(sidecar);
    pod
}

/// Runs the pod. Each port has a listener from a time on, or never; no readiness probe succeeds unless it is in `ready`.
fn check(pod: &Pod, listens_at: &BTreeMap<u16, u64>, ready_at: Option<u64>) {
    let mut stage = held(Mode::Enforce, pod.clone());
    stage.announce();
    if !stage.take_hold()[0].starts_with("arm ") {
        return;
    }
    stage.armed();
    stage.take_hold();
    for (number, container) in pod.containers.iter().enumerate() {
        stage.start(&container.name, &format!("r{number}"));
    }
    let begin = stage.now;
    let mut waiting: BTreeSet<u16> = BTreeSet::new();
    let mut watched: BTreeSet<Probe> = BTreeSet::new();
    let mut released: BTreeMap<u16, Duration> = BTreeMap::new();
    for action in &stage.actions {
        match action {
            Action::Arm { wanted, .. } => waiting.extend(wanted.ports.iter().map(|one| one.port)),
            Action::Watch { probes, .. } => watched.extend(probes.iter().cloned()),
            _ => {}
        }
    }
    let held_ports = waiting.clone();
    for tick in 0..=60_u64 {
        let now = Duration::from_millis(tick * 100);
        stage.now = begin + now;
        stage.actions.clear();
        stage.send(Event::Timer);
        for probe in watched.clone() {
            let succeeds = match &probe {
                Probe::Listens { port } => listens_at.get(port).is_some_and(|at| *at <= tick),
                Probe::Answers { .. } => ready_at.is_some_and(|at| at <= tick),
            };
            if succeeds && watched.remove(&probe) {
                stage.probed(probe);
            }
        }
        for action in &stage.actions {
            let ports: Vec<u16> = match action {
                Action::ReleaseAll { .. } => waiting.iter().copied().collect(),
                Action::ReleasePorts { ports, .. } => ports.clone(),
                _ => continue,
            };
            for port in ports {
                waiting.remove(&port);
                released.insert(port, now);
            }
        }
    }
    for port in held_ports {
        let Some(at) = listens_at.get(&port) else {
            continue;
        };
        let without_usher = Duration::from_millis(at * 100);
        let longest = without_usher + GRACE;
        let found = released.get(&port);
        assert!(
            found.is_some_and(|found| *found <= longest),
            "{pod:#?}\n:{port} listens at {without_usher:?} and is released at {found:?}"
        );
    }
}

/// A time in tenths of a second for each port that may be held, or none.
fn listeners() -> impl Strategy<Value = Vec<Option<u64>>> {
    prop::collection::vec(prop::option::of(0..40_u64), 16)
}

/// The time of each port's listener. The mesh's resolver may listen before it knows the names of the mesh. Its queries
/// wait for the proxy, so both ports listen at the same time here.
fn spread(pod: &Pod, times: &[Option<u64>]) -> BTreeMap<u16, u64> {
    let plan = Plan::of(
        pod,
        &Config::default(),
        &NamespaceValues::default(),
        &VersionQueries::default(),
    );
    let held_ports = plan.held_ports();
    let apart: BTreeMap<u16, Option<u64>> = held_ports
        .iter()
        .map(|held_port| held_port.port)
        .zip(times.iter().copied())
        .collect();
    held_ports
        .into_iter()
        .filter_map(|held_port| {
            let as_one = held_port.captured.unwrap_or(held_port.port);
            Some((held_port.port, apart[&as_one]?))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn every_recipe_with_every_condition(
        recipe in 0..builtin().len(), version in 0..40_u32, choices: u64,
        times in listeners(), ready_at in prop::option::of(0..40_u64),
    ) {
        let pod = pod_with(&builtin()[recipe], version, choices);
        check(&pod, &spread(&pod, &times), ready_at);
    }

    #[test]
    fn every_pod_from_the_field(
        case: prop::sample::Index, times in listeners(), ready_at in prop::option::of(0..40_u64),
    ) {
        let pod = case.get(field::cases()).pod();
        check(&pod, &spread(&pod, &times), ready_at);
    }
}

/// If a recipe's settings disable everything that could be probed, nothing is held. Port 0 means disabled.
#[test]
fn a_port_that_is_off_is_neither_held_nor_probed() {
    let (config, namespace) = (Config::default(), NamespaceValues::default());
    for recipe in builtin()
        .iter()
        .filter(|recipe| recipe.hold.ports().next().is_some())
    {
        for choices in 0..1024_u64 {
            let pod = pod_with(recipe, 26, choices);
            let plan = Plan::of(&pod, &config, &namespace, &VersionQueries::default());
            for held_port in plan.held_ports() {
                let (Probe::Listens { port } | Probe::Answers { port, .. }) = held_port.probe;
                assert!(port != 0 && held_port.port != 0, "{pod:#?}");
            }
        }
    }
}
