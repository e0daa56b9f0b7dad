//! Apps that must not execute an instruction before their proxy is ready.

mod faults;
mod inside;
mod rig;

use std::time::Duration;

use jiff::Timestamp;
use usher_cluster::mesh::{ECHO, InitCase, NAMESPACE, Outcome, Proxy, Variant, run_jobs};

use self::rig::Waiting;
use crate::lab::{self, Lab, until};

/// Rounds of the series; each has a pod of every order, with and without an init container.
const ROUNDS: usize = 5;
const POLICIES: [&str; 3] = ["Never", "OnFailure", "Always"];
const ORDERS: [(Proxy, Option<InitCase>); 4] = [
    (Proxy::Last, None),
    (Proxy::First, None),
    (Proxy::Last, Some(InitCase::Plain)),
    (Proxy::First, Some(InitCase::Plain)),
];

/// An app that sends one datagram, which a hold of connections does not affect, and requests one page.
fn variant(proxy: Proxy) -> Variant {
    Variant {
        annotations: vec![
            ("usher.dev/hold", "start"),
            // Otherwise the proxy may be terminated before this test has seen it ready.
            ("usher.dev/quit", "false"),
            // A test ends the hold, however long a slow node takes for the steps before.
            ("usher.dev/hold-deadline", "10m"),
        ],
        args: vec!["--echo", ECHO],
        ..Variant::new(proxy)
    }
}

/// Its first run started after the proxy was ready, and all its requests succeeded at once.
fn started_late(lab: &Lab, outcome: &Outcome) {
    let run = &outcome.app[0];
    assert!(outcome.proxy_ready_at.is_some(), "{outcome:#?}");
    assert!(
        Some(run.main_at) > outcome.proxy_unready_at,
        "ran while the proxy was not ready: {outcome:#?}"
    );
    assert_eq!(run.echo, Some(Ok(())), "{outcome:#?}");
    assert_eq!((&run.answer, run.refused), (&Ok(200), 0), "{outcome:#?}");
    assert_eq!(run.exit_code, 0, "{outcome:#?}");
    let name = outcome.pod["metadata"]["name"].as_str().unwrap();
    decided(lab, name, "start-released");
    assert_eq!(decisions(lab, name, "start-held").len(), 1, "{name}");
    assert_eq!(decisions(lab, name, "start-missed").len(), 0, "{name}");
}

/// The reasons of the decisions about a pod of the mesh.
fn decisions(lab: &Lab, pod: &str, decision: &str) -> Vec<String> {
    let pod = format!("{NAMESPACE}/{pod}");
    let lines = lab.log();
    let ours = lines
        .iter()
        .filter(|line| line.text("pod") == pod && line.text("decision") == decision);
    ours.map(|line| line.text("reason").to_owned()).collect()
}

/// The number of held starts since then.
fn starts_held(lab: &Lab, since: Timestamp) -> usize {
    let lines = lab.log_since(since);
    let held = lines
        .iter()
        .filter(|line| line.text("decision") == "start-held");
    held.count()
}

fn decided(lab: &Lab, pod: &str, decision: &str) -> String {
    until(&format!("{decision} of {pod}"), || {
        decisions(lab, pod, decision).pop()
    })
}

#[test]
fn no_app_of_twenty_runs_before_its_proxy_is_ready() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let mut outcomes = Vec::new();
    for round in 0..ROUNDS {
        let variants: Vec<Variant> = (0..)
            .zip(ORDERS)
            .map(|(number, (proxy, init))| Variant {
                init,
                restart_policy: POLICIES[(round + number) % POLICIES.len()],
                delay: Some(Duration::from_secs(1)),
                ..variant(proxy)
            })
            .collect();
        let since = Timestamp::now();
        let all_held = || starts_held(&lab, since) >= variants.len();
        outcomes.extend(run_jobs(&lab.cluster, &variants, &all_held).unwrap());
    }
    assert_eq!(outcomes.len(), 20);
    for outcome in &outcomes {
        started_late(&lab, outcome);
        for init in &outcome.init {
            assert_eq!(init.answer, Ok(200), "{outcome:#?}");
            assert!(init.main_at < outcome.app[0].main_at, "{outcome:#?}");
        }
    }
    eprintln!("ran after readiness: {} of 20", outcomes.len());
}

#[test]
fn app_without_a_start_hold_runs_before_the_proxy() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let connect = Variant {
        annotations: vec![
            ("usher.dev/hold", "connect"),
            ("usher.dev/quit", "false"),
            ("usher.dev/hold-deadline", "10m"),
        ],
        delay: Some(Duration::from_secs(1)),
        ..variant(Proxy::Last)
    };
    // istiod is away until the app runs, however long the node takes to start it.
    let has_begun = || super::app_has_begun(&lab.cluster);
    let mut outcomes = run_jobs(&lab.cluster, &[connect], &has_begun).unwrap();
    let outcome = outcomes.pop().unwrap();
    let run = &outcome.app[0];
    assert!(Some(run.main_at) < outcome.proxy_ready_at, "{outcome:#?}");
    // The mesh captures no UDP, so the datagram was sent directly.
    assert_eq!(run.echo, Some(Ok(())), "{outcome:#?}");
    assert_eq!(run.answer, Ok(200), "{outcome:#?}");
    let name = outcome.pod["metadata"]["name"].as_str().unwrap();
    assert_eq!(decisions(&lab, name, "start-held").len(), 0, "{name}");
}

/// The kubelet restarts it at once, and its proxy is ready.
#[test]
fn restarted_app_is_not_held_again() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let always = Variant {
        restart_policy: "Always",
        ..variant(Proxy::First)
    };
    let mut waiting = Waiting::begin(&lab, &[rig::pod("again", &always)]);
    waiting.held(0);
    waiting.proceed();
    for run in waiting.ended_times(2) {
        assert_eq!((run.answer, run.exit_code), (Ok(200), 0));
    }
    let name = waiting.name(0);
    assert_eq!(decisions(&lab, name, "start-held").len(), 1, "{name}");
}
