//! Pods from the field: how their sidecars are terminated once their apps have ended.

use std::time::Duration;

use super::stage::{Stage, key};
use crate::{
    pod::{container_change::ContainerChange, restart_policy::RestartPolicy, spec::Pod},
    quit::outcome::Outcome,
    recipe::tests::field::pod_of,
    settings::mode::Mode,
};

/// The pod of a case in enforce mode. All its containers run, as `r0`, `r1`, ... in the order of the spec.
fn running(case: &str) -> Stage {
    running_pod(pod_of(case))
}

fn running_pod(spec: Pod) -> Stage {
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.send(crate::Event::PodAppeared(super::stage::uid()));
    for (number, container) in stage.spec.containers.clone().into_iter().enumerate() {
        stage.start(&container.name, &format!("r{number}"));
    }
    stage.list();
    stage.pass(Duration::from_secs(20));
    stage.take();
    stage
}

/// The main container exits, then each sidecar as it is requested to quit. Returns the requests in order.
fn requests(case: &str, apps: &[&str], sidecars: &[&str]) -> Vec<String> {
    let mut stage = running(case);
    for app in apps {
        stage.exit(app, 0);
    }
    let mut requests = Vec::new();
    for sidecar in sidecars {
        requests.extend(
            stage
                .take()
                .into_iter()
                .filter(|line| line.starts_with('r')),
        );
        stage.outcome(sidecar, Outcome::Accepted);
        stage.exit(sidecar, 0);
    }
    requests.extend(
        stage
            .take()
            .into_iter()
            .filter(|line| line.starts_with('r')),
    );
    requests
}

#[test]
fn helpers_before_the_mesh() {
    let status = "POST :15020/quitquitquit";
    let admin = "POST :15000/quitquitquit";
    for (case, first, then) in [
        ("Azure Workload Identity", "SIGTERM", status),
        ("Open Policy Agent", "SIGTERM", admin),
        (
            "Linkerd's debug container",
            "SIGTERM",
            "POST :4191/shutdown",
        ),
    ] {
        let expected = [format!("r1 {first}"), format!("r2 {then}")];
        assert_eq!(requests(case, &["r0"], &["r1", "r2"]), expected, "{case}");
    }
    for (case, first) in [
        ("OpenBao agent", "r1 SIGTERM to bao"),
        ("Datadog agent", "r1 SIGTERM"),
        ("instrumentation for Go", "r1 SIGTERM"),
        (
            "Docker in Docker beside a build agent",
            "r1 SIGTERM to dockerd",
        ),
        (
            "Cloud SQL proxy v1 below a shell",
            "r1 SIGTERM to cloud_sql_proxy",
        ),
        (
            "Cloud SQL proxy v1 in an own image",
            "r1 SIGTERM to cloud_sql_proxy",
        ),
        ("AlloyDB", "r1 POST :9092/quitquitquit"),
        (
            "Linkerd from a registry with one repository",
            "r1 POST :4191/shutdown",
        ),
    ] {
        assert_eq!(requests(case, &["r0"], &["r1"]), [first], "{case}");
    }
}

/// A step with an unknown exit code is taken only where no code does harm, or where the author of the pod takes responsibility.
#[test]
fn unknown_exit_code_is_not_zero() {
    use RestartPolicy::{Never, OnFailure};
    type Annotations = &'static [(&'static str, &'static str)];
    const NONE: Annotations = &[];
    const ALLOWED: Annotations = &[("usher.dev/allow-pod-failure", "true")];
    const NAMED: Annotations = &[(
        "usher.dev/sidecars",
        "netbird=SIGTERM, envoy=SIGTERM, gateway-sidecar=SIGTERM, traffic-agent=SIGTERM",
    )];
    for (case, sidecar, run) in [
        ("NetBird", "netbird", "r1"),
        ("Telepresence", "traffic-agent", "r1"),
        ("pod-gateway", "gateway-sidecar", "r1"),
    ] {
        let cases = [
            (Never, NONE, 0, false),
            (Never, NONE, 3, true),
            (Never, ALLOWED, 0, true),
            (Never, NAMED, 0, true),
            (OnFailure, NONE, 0, false),
            (OnFailure, ALLOWED, 0, true),
            (OnFailure, NAMED, 0, true),
        ];
        for (policy, annotations, code, is_taken) in cases {
            let mut spec = pod_of(case);
            spec.restart_policy = policy;
            let annotations = annotations.iter();
            let annotations =
                annotations.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            spec.annotations.extend(annotations);
            let mut stage = running_pod(spec);
            stage.exit("r0", code);
            stage.pass(Duration::from_secs(60));
            let done = stage.take();
            let what = format!("{case} {policy:?} {code}: {done:?}");
            let attempts = done
                .iter()
                .filter(|line| **line == format!("{run} SIGTERM"));
            assert_eq!(attempts.count(), usize::from(is_taken), "{what}");
            let gave_up = format!("{sidecar} gave-up");
            let has_given_up = done.iter().any(|line| line.starts_with(&gave_up));
            assert_eq!(has_given_up, !is_taken, "{what}");
        }
    }
}

/// GKE ends the container after the proxy has ended. A wait for it would be a deadlock.
#[test]
fn self_terminating_sidecar_is_neither_awaited_nor_terminated() {
    let mut stage = running("GCS FUSE beside Istio");
    stage.exit("r1", 0);
    let finished = "pod-finished";
    assert_eq!(stage.take(), [finished, "r2 POST :15000/quitquitquit"]);
    stage.outcome("r2", Outcome::Accepted);
    stage.exit("r2", 0);
    let ended = [
        "istio-proxy quit-accepted",
        "istio-proxy sidecar-ended as requested",
    ];
    assert_eq!(stage.take(), ended);
    stage.pass(Duration::from_secs(600));
    assert!(stage.take().is_empty());
}

#[test]
fn log_shippers_that_serve_the_pod_are_awaited() {
    let drainer = "the drainer Job of the logging operator";
    assert_eq!(requests(drainer, &["r0"], &[]), [""; 0]);
    assert_eq!(
        requests(drainer, &["r0", "r1"], &["r2"]),
        ["r2 POST :7357/exit"]
    );
    let import = "a Job that ships logs, in a mesh";
    assert_eq!(
        requests(import, &["r0"], &["r1"]),
        ["r1 POST :15000/quitquitquit"]
    );
}

/// Each sidecar takes its documented time, and exits.
#[test]
fn a_documented_time_is_no_failure() {
    for (case, takes) in [
        ("Dapr that blocks its shutdown", 45),
        (
            "Dapr that blocks its shutdown and ends slowly, by arguments",
            80,
        ),
        ("Consul with transparent proxy and DNS", 45),
        ("a Cloud SQL proxy that waits for its connections", 20),
    ] {
        let mut stage = running(case);
        let name = stage.spec.containers[1].name.clone();
        stage.exit("r0", 0);
        stage.take();
        stage.outcome("r1", Outcome::Accepted);
        stage.pass(Duration::from_secs(takes));
        stage.exit("r1", 0);
        let expected = [
            format!("{name} quit-accepted"),
            format!("{name} sidecar-ended as requested"),
        ];
        assert_eq!(stage.take(), expected, "{case}");
    }
}

/// A runtime creates a container some time before it starts it. A signal in between would end the runtime's own process, and
/// the container with it.
#[test]
fn signal_waits_for_the_start_of_a_created_container() {
    let mut stage = Stage::new(Mode::Enforce, pod_of("Azure Workload Identity"));
    stage.send(crate::Event::PodAppeared(super::stage::uid()));
    let main = stage.spec.containers[0].name.clone();
    stage.start(&main, "r0");
    stage.appear("r1");
    let name = Some(stage.spec.containers[1].name.clone());
    let change = ContainerChange::Started { name };
    stage.send(crate::Event::container(key("r1"), change));
    stage.list();
    stage.exit("r0", 0);
    stage.take();
    stage.pass(Duration::from_secs(20));
    assert!(stage.take().is_empty());
    stage.send(crate::Event::container(
        key("r1"),
        ContainerChange::Executed,
    ));
    stage.pass(Duration::from_millis(499));
    assert!(stage.take().is_empty());
    stage.pass(Duration::from_millis(251));
    assert_eq!(stage.take(), ["r1 SIGTERM"]);
}

/// The pod may have no other event for a long time.
#[test]
fn next_stage_follows_at_once_when_no_step_is_left() {
    let mut stage = running("Azure Workload Identity");
    stage.exit("r0", 0);
    stage.outcome("r1", Outcome::Signalled);
    stage.take();
    stage.pass(Duration::from_secs(31));
    assert_eq!(
        stage.take(),
        [
            "azwi-proxy step-failed, next nothing",
            "azwi-proxy gave-up: StillRuns",
            "r2 POST :15020/quitquitquit",
        ]
    );
}
