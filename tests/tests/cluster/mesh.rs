//! Apps in a real Istio mesh without usher: the failures that the hold prevents.

mod held;
mod started;

use std::{thread, time::Duration};

use jiff::Timestamp;
use serde_json::Value;
use usher_cluster::{
    Cluster,
    mesh::{InitCase, NAMESPACE, Outcome, Proxy, Variant, run_job, run_jobs},
};

use crate::lab::{self, Lab};

/// Jobs at once.
const JOBS: usize = 5;

fn run(cluster: &Cluster, variant: &Variant) -> Outcome {
    run_job(cluster, variant).unwrap()
}

/// In parallel.
fn run_all(cluster: &Cluster, variants: &[Variant]) -> Vec<Outcome> {
    thread::scope(|scope| {
        let start = |variant| scope.spawn(move || run(cluster, variant));
        let jobs: Vec<_> = variants.iter().map(start).collect();
        jobs.into_iter().map(|job| job.join().unwrap()).collect()
    })
}

/// Runs a Job with connections that are held for at most 2 s; istiod is away until the deadline has passed and the app has
/// ended.
pub(crate) fn run_to_deadline(lab: &Lab) -> Outcome {
    let variant = Variant {
        delay: Some(Duration::ZERO),
        annotations: vec![("usher.dev/hold-deadline", "2s")],
        ..Variant::new(Proxy::Last)
    };
    // The deadline starts with the app, which may start late.
    let since = Timestamp::now();
    let has_come = || lab.deadline_since(since) && app_has_ended(&lab.cluster);
    let mut outcomes = run_jobs(&lab.cluster, &[variant], &has_come).unwrap_or_else(|error| {
        // The pod is removed by now.
        panic!("{error:#}; since then: {:#?}", lab.log_since(since))
    });
    outcomes.pop().unwrap()
}

#[test]
fn app_is_refused_without_a_hold() {
    let Some(lab) = lab::alone() else {
        return;
    };
    lab.remove_agent();
    without_delay(&lab.cluster);
    with_istiod_away(&lab.cluster);
}

#[expect(clippy::print_stderr, reason = "the count is what one wants to know")]
fn without_delay(cluster: &Cluster) {
    let outcomes = run_all(cluster, &vec![Variant::new(Proxy::Last); JOBS]);
    let refused = outcomes.iter().filter(|one| one.refused()).count();
    eprintln!("refused: {refused} of {JOBS}");
    assert!(refused >= 1, "{outcomes:#?}");
    for outcome in outcomes.iter().filter(|one| one.refused()) {
        assert_eq!(outcome.app_exit_code(), Some(1));
        assert!(outcome.proxy_ready_at > outcome.app[0].answered_at);
    }
}

/// istiod is away until the app has been refused, however long the node takes to start it.
/// A shorter absence once ended before the app of a slow node began.
fn with_istiod_away(cluster: &Cluster) {
    let variant = Variant {
        delay: Some(Duration::ZERO),
        restart_policy: "OnFailure",
        ..Variant::new(Proxy::Last)
    };
    let was_restarted = || app_was_restarted(cluster);
    let outcome = run_jobs(cluster, &[variant], &was_restarted)
        .unwrap()
        .pop()
        .unwrap();
    assert!(outcome.refused(), "{outcome:#?}");
    assert!(
        outcome.proxy_ready_at > outcome.continued_at,
        "{outcome:#?}"
    );
    assert_eq!(
        outcome.app_exit_code(),
        Some(0),
        "the kubelet runs it again"
    );
}

/// Whether the kubelet has restarted the app of a pod in the mesh.
fn app_was_restarted(cluster: &Cluster) -> bool {
    is_any_app(cluster, |status| status["restartCount"].as_u64() > Some(0))
}

/// Whether the app of a pod in the mesh runs or has ended, by the kubelet's report.
fn app_has_begun(cluster: &Cluster) -> bool {
    is_any_app(cluster, |status| {
        let state = &status["state"];
        state["running"].is_object() || state["terminated"].is_object()
    })
}

/// Whether the app of a pod in the mesh has ended, by the kubelet's report.
fn app_has_ended(cluster: &Cluster) -> bool {
    is_any_app(cluster, |status| status["state"]["terminated"].is_object())
}

fn is_any_app(cluster: &Cluster, is: impl Fn(&Value) -> bool) -> bool {
    // A slow API server may not reply in time; the next poll repeats the request.
    let pods = cluster.kubectl_json(&["-n", NAMESPACE, "get", "pods"]);
    let pods = pods.unwrap_or_default();
    let pods = pods["items"].as_array().into_iter().flatten();
    pods.filter_map(|pod| pod["status"]["containerStatuses"].as_array())
        .flatten()
        .any(|status| status["name"] == "app" && is(status))
}

#[test]
fn app_is_served_with_hold_application_until_proxy_starts() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let variants = [Proxy::None, Proxy::Awaited, Proxy::Native].map(Variant::new);
    for outcome in run_all(&lab.cluster, &variants) {
        assert!(!outcome.refused(), "{outcome:#?}");
        assert_eq!(outcome.app_exit_code(), Some(0), "{outcome:#?}");
    }
}

/// Istio's injector adds its own init container after the user's.
#[test]
fn init_container_connects_before_the_rules_exist() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let variant = Variant {
        init: Some(InitCase::Plain),
        ..Variant::new(Proxy::Last)
    };
    let outcome = run(&lab.cluster, &variant);
    assert_eq!(outcome.init.len(), 1, "{outcome:#?}");
    assert_eq!(outcome.init[0].answer, Ok(200));
}

/// A hold cannot help, because the proxy starts after the init container. Users exclude their init
/// container's traffic from the capture.
#[test]
fn init_container_after_the_rules_is_refused_unless_exempt() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let cases = [
        (InitCase::Plain, 1),
        (InitCase::ExcludedPort, 0),
        (InitCase::ProxyUser, 0),
    ];
    let variants = cases.map(|(case, _)| Variant {
        init: Some(case),
        rules_first: true,
        ..Variant::new(Proxy::Last)
    });
    let outcomes = run_all(&lab.cluster, &variants);
    for (outcome, (case, code)) in outcomes.iter().zip(cases) {
        assert_eq!(outcome.init.len(), 1, "{outcome:#?}");
        assert_eq!(outcome.init[0].exit_code, code, "{case:?}: {outcome:#?}");
    }
}
