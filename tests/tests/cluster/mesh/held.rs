//! The same apps with usher: the first connection succeeds in any start order.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use jiff::Timestamp;
use usher_cluster::mesh::{InitCase, NAMESPACE, Outcome, Proxy, Variant, run_jobs};

use super::{app_has_ended, run, run_to_deadline};
use crate::lab::{self, Lab, until};

/// Jobs of the series, and the number of parallel ones.
const SERIES: usize = 20;
const BESIDE: usize = 4;
/// A proxy of a slow node may need more than the usual deadline of 30 s.
const PATIENT: (&str, &str) = ("usher.dev/hold-deadline", "2m");

/// The app ran once, its first attempt got a response, nothing was restarted.
fn served(outcome: &Outcome) {
    assert!(!outcome.refused(), "{outcome:#?}");
    assert_eq!(outcome.app.len(), 1, "{outcome:#?}");
    assert_eq!(outcome.app[0].answer, Ok(200), "{outcome:#?}");
    assert_eq!(outcome.app_exit_code(), Some(0), "{outcome:#?}");
}

fn name(outcome: &Outcome) -> String {
    let name = outcome.pod["metadata"]["name"].as_str().unwrap();
    format!("{NAMESPACE}/{name}")
}

/// The decisions about the connections of a pod.
fn decided(lab: &Lab, outcome: &Outcome, decision: &str) -> String {
    let pod = name(outcome);
    until(decision, || {
        let lines = lab.holds(NAMESPACE);
        let mut lines = lines.iter().filter(|line| line.text("pod") == pod);
        let found = lines.find(|line| line.text("decision") == decision)?;
        Some(found.text("reason").to_owned())
    })
}

#[test]
fn first_connection_succeeds_in_twenty_of_twenty_runs() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let cluster = &lab.cluster;
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let series = |first: usize| {
            let numbers = (first..SERIES).step_by(BESIDE);
            let policy = |number: usize| ["Never", "OnFailure"][number / BESIDE % 2];
            let variant = |number| Variant {
                restart_policy: policy(number),
                annotations: vec![PATIENT],
                ..Variant::new(Proxy::Last)
            };
            numbers
                .map(|number| run(cluster, &variant(number)))
                .collect()
        };
        let all: Vec<_> = (0..BESIDE)
            .map(|first| scope.spawn(move || series(first)))
            .collect();
        all.into_iter()
            .flat_map(|one| -> Vec<Outcome> { one.join().unwrap() })
            .collect()
    });
    assert_eq!(outcomes.len(), SERIES);
    for outcome in &outcomes {
        served(outcome);
        // There is no time if the proxy was requested to quit before the test saw it ready.
        let ready = outcome.proxy_ready_at;
        let is_late = ready.is_none_or(|at| at > outcome.app[0].main_at);
        assert!(is_late, "{outcome:#?}");
    }
    let reasons: Vec<String> = outcomes
        .iter()
        .map(|outcome| decided(&lab, outcome, "hold-released"))
        .collect();
    let ready = |reason: &String| reason.contains("the sidecar is ready");
    assert!(reasons.iter().all(ready), "{reasons:#?}");
    // On a busy node a proxy may be ready when the app connects, although the last probe failed.
    let waited = |reason: &&String| reason.contains("1 connection had waited");
    let waited = reasons.iter().filter(waited).count();
    assert!(waited * 2 > SERIES, "{reasons:#?}");
}

#[test]
fn connection_waits_until_the_proxy_is_ready() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let delays = [
        (Proxy::Last, 2, "Never"),
        (Proxy::First, 2, "OnFailure"),
        (Proxy::Last, 5, "OnFailure"),
    ];
    for (proxy, seconds, restart_policy) in delays {
        let variant = Variant {
            delay: Some(Duration::from_secs(seconds)),
            restart_policy,
            annotations: vec![PATIENT],
            ..Variant::new(proxy)
        };
        let outcome = run(&lab.cluster, &variant);
        served(&outcome);
        assert!(
            outcome.app[0].answered_at > outcome.continued_at,
            "{outcome:#?}"
        );
    }
}

#[test]
fn deadline_ends_the_wait() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let outcome = run_to_deadline(&lab);
    assert!(outcome.refused(), "{outcome:#?}");
    let reason = decided(&lab, &outcome, "hold-released");
    assert!(
        reason.contains("the sidecar is not ready at the deadline"),
        "{reason}"
    );
}

#[test]
fn init_containers_are_not_held() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let cluster = &lab.cluster;
    let cases = [
        (InitCase::Plain, false),
        (InitCase::ExcludedPort, true),
        (InitCase::ProxyUser, true),
    ];
    thread::scope(|scope| {
        for (init, rules_first) in cases {
            scope.spawn(move || {
                let variant = Variant {
                    init: Some(init),
                    rules_first,
                    annotations: vec![PATIENT],
                    ..Variant::new(Proxy::Last)
                };
                let outcome = run(cluster, &variant);
                assert_eq!(outcome.init.len(), 1, "{outcome:#?}");
                assert_eq!(outcome.init[0].answer, Ok(200), "{outcome:#?}");
                served(&outcome);
            });
        }
    });
}

#[test]
fn observe_mode_counts_refused_connections() {
    let Some(lab) = lab::alone() else {
        return;
    };
    lab.mode("observe");
    // The proxy is not ready before the app has ended.
    let variant = Variant {
        delay: Some(Duration::ZERO),
        ..Variant::new(Proxy::Last)
    };
    let has_ended = || app_has_ended(&lab.cluster);
    let mut outcomes = run_jobs(&lab.cluster, &[variant], &has_ended).unwrap();
    let outcome = outcomes.pop().unwrap();
    assert!(outcome.refused(), "{outcome:#?}");
    let reason = decided(&lab, &outcome, "would-hold");
    assert!(reason.contains("1 connection was refused"), "{reason}");
}

/// The kernel keeps the hold without the agent, and the next agent adopts it.
#[test]
fn killed_agent_loses_no_connection() {
    let Some(lab) = lab::alone() else {
        return;
    };
    // Another test may have killed this agent, and the kubelet would wait before
    // the restart.
    lab.remove_agent();
    lab.deploy();
    let since = Timestamp::now();
    let is_killed = AtomicBool::new(false);
    let mut outcomes = thread::scope(|scope| {
        let job = scope.spawn(|| {
            let variant = Variant {
                delay: Some(Duration::ZERO),
                annotations: vec![("usher.dev/hold-deadline", "120s")],
                ..Variant::new(Proxy::Last)
            };
            // The proxy is not ready before the agent is killed.
            let is_killed = || is_killed.load(Ordering::Relaxed);
            run_jobs(&lab.cluster, &[variant], &is_killed)
        });
        until("a hold", || {
            let lines = lab.log_since(since);
            let mut lines = lines.iter();
            lines.find_map(|line| (line.text("decision") == "hold-armed").then_some(()))
        });
        for pid in lab.agent_pids() {
            lab.cluster.in_node(&["kill", "-KILL", &pid]).unwrap();
        }
        is_killed.store(true, Ordering::Relaxed);
        job.join().unwrap().unwrap()
    });
    let outcome = outcomes.pop().unwrap();
    // For the case that the next assertion fails.
    for line in lab.log_since(since) {
        eprintln!("{}", line.0);
    }
    served(&outcome);
    let reason = decided(&lab, &outcome, "hold-adopted");
    assert!(reason.contains(":15001"), "{reason}");
}
