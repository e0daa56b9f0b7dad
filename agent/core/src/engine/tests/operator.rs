//! Requests of operators.

mod hold;

use std::time::Duration;

use super::stage::{PROXY, Stage, key, pod, run_of, status, uid};
use crate::{
    Event,
    decision::{Requester, Verb},
    engine::request::{Answer, OperatorRequest, Refused, Taken},
    pod::{
        container_change::ContainerChange,
        restart_policy::{RestartPolicy, RestartRule},
        spec::{Pod, RunState},
    },
    quit::{ladder::MIN_SIGNAL_AGE, outcome::Outcome},
    settings::mode::Mode,
};

const QUIT: Verb = Verb::Quit { force: false };
const FORCE: Verb = Verb::Quit { force: true };
const POST: &str = "i POST :15020/quitquitquit";

impl Stage {
    /// Sends an operator's request, and returns the reply.
    pub(super) fn request(&mut self, verb: Verb) -> Answer {
        self.request_with(verb, false)
    }

    fn request_with(&mut self, verb: Verb, dry_run: bool) -> Answer {
        let before = self.answers.len();
        self.send(Event::Operator(OperatorRequest {
            pod: uid(),
            verb,
            requester: Requester { uid: 0, pid: 4711 },
            dry_run,
        }));
        assert_eq!(self.answers.len(), before + 1, "one answer, at once");
        self.answers.pop().unwrap()
    }

    /// The operator requests in the timeline.
    fn operator_requests(&self) -> Vec<String> {
        let lines = self.log.iter();
        let lines = lines.filter_map(|line| line.strip_prefix("operator-request: "));
        lines.map(str::to_owned).collect()
    }
}

fn taken(answer: Answer) -> Taken {
    match answer {
        Answer::Taken(taken) => taken,
        other => panic!("not taken: {other:?}"),
    }
}

fn refused(answer: Answer) -> Refused {
    match answer {
        Answer::Refused(refused) => refused,
        other => panic!("not refused: {other:?}"),
    }
}

fn running(mode: Mode, spec: Pod) -> Stage {
    let mut stage = Stage::new(mode, spec);
    stage.run_all();
    // The containers are old enough to receive signals.
    stage.now = stage.now + MIN_SIGNAL_AGE;
    stage
}

fn finished(mode: Mode, spec: Pod) -> Stage {
    let mut stage = running(mode, spec);
    stage.exit("a", 0);
    stage.take();
    stage
}

fn opted_out() -> Pod {
    let mut spec = pod(RestartPolicy::Never, &["app"]);
    let no = ("usher.dev/quit".to_owned(), "false".to_owned());
    spec.annotations.extend([no]);
    spec
}

/// A pod whose only sidecar exits with 143 on SIGTERM.
fn failing() -> Pod {
    let mut spec = pod(RestartPolicy::Never, &["app"]);
    let proxy = spec.containers.iter_mut().find(|one| one.name == PROXY);
    let proxy = proxy.unwrap();
    proxy.name = "sql".to_owned();
    proxy.image = "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.27.0".to_owned();
    spec
}

#[test]
fn neither_mode_nor_opt_out_nor_delay_count() {
    let delayed = || {
        let mut spec = pod(RestartPolicy::Never, &["app"]);
        let wait = ("usher.dev/quit-delay".to_owned(), "5m".to_owned());
        spec.annotations.extend([wait]);
        spec
    };
    let plain = || pod(RestartPolicy::Never, &["app"]);
    let table = [
        (Mode::Observe, plain(), "the node's mode is observe"),
        (Mode::Off, plain(), "the node's mode is off"),
        (
            Mode::Enforce,
            opted_out(),
            "the pod opted out: usher.dev/quit",
        ),
        (
            Mode::Enforce,
            delayed(),
            "usher.dev/quit-delay requests a wait",
        ),
    ];
    for (mode, spec, despite) in table {
        let mut stage = finished(mode, spec);
        let output = taken(stage.request(QUIT));
        assert!(output.despite[0].starts_with(despite), "{output:?}");
        assert_eq!(output.steps[0].step, "POST :15020/quitquitquit");
        assert_eq!(stage.take(), ["operator-request", POST]);
        stage.outcome("i", Outcome::Accepted);
        stage.exit("i", 0);
        let done = stage.take();
        assert_eq!(
            done,
            [
                "istio-proxy quit-accepted",
                "istio-proxy sidecar-ended as requested"
            ]
        );
        let noted = stage.operator_requests();
        assert!(noted[0].starts_with(
            "quit, requested by uid 0, pid 4711: terminated: istio-proxy by POST :15020/quitquitquit; although "
        ), "{noted:?}");
        assert_eq!(
            stage.request(QUIT),
            Answer::Nothing("none of its sidecars runs".to_owned())
        );
    }
}

#[test]
fn an_app_that_runs_is_a_reason_to_refuse() {
    for mode in [Mode::Off, Mode::Observe, Mode::Enforce] {
        let mut stage = running(mode, pod(RestartPolicy::Never, &["app"]));
        let why = refused(stage.request(QUIT));
        assert_eq!(why.to_string(), "app container app runs");
        assert!(why.yields_to_force());
        stage.pass(Duration::from_secs(60));
        assert!(stage.attempts.is_empty() && stage.operator_requests().is_empty());
        let output = taken(stage.request(FORCE));
        assert_eq!(output.despite[0], "app container app runs");
        assert_eq!(stage.attempts.len(), 1, "{mode:?}");
        stage.outcome("i", Outcome::NoReply);
        stage.take();
        stage.exit("i", 0);
        assert_eq!(stage.take(), ["istio-proxy sidecar-ended as requested"]);
        // The request does not cover a run that starts later.
        stage.start(PROXY, "i2");
        stage.pass(Duration::from_secs(60));
        assert_eq!(stage.attempts.len(), 1, "{mode:?}");
    }
}

#[test]
fn pod_that_never_finishes_or_restarts_requires_force() {
    let mut stage = running(Mode::Enforce, pod(RestartPolicy::Always, &["app"]));
    let why = refused(stage.request(QUIT));
    assert!(why.yields_to_force(), "{why}");
    let output = taken(stage.request(FORCE));
    assert!(
        output.steps[0]
            .note
            .as_ref()
            .unwrap()
            .starts_with("forced: "),
        "{output:?}"
    );
    assert_eq!(stage.attempts.len(), 1);
    stage.log.clear();
    stage.outcome(&run_of(PROXY), Outcome::Rejected(404));
    assert!(
        stage.log.iter().any(|line| line.contains("step-failed")),
        "{:?}",
        stage.log
    );
    // A pod that has only sidecars.
    let mut stage = running(Mode::Enforce, pod(RestartPolicy::Never, &[]));
    assert!(refused(stage.request(QUIT)).yields_to_force());
    assert_eq!(taken(stage.request(FORCE)).steps.len(), 1);
    // No sidecar: nothing to force.
    let mut spec = pod(RestartPolicy::Never, &["app"]);
    spec.containers.retain(|one| one.name == "app");
    let mut stage = running(Mode::Enforce, spec);
    assert!(!refused(stage.request(FORCE)).yields_to_force());
}

#[test]
fn only_a_forced_request_fails_a_pod_and_reports_it() {
    let mut spec = failing();
    spec.restart_policy = RestartPolicy::Never;
    let mut stage = running(Mode::Observe, spec);
    stage.exit("a", 0);
    let why = refused(stage.request(QUIT));
    assert!(matches!(why, Refused::FailsPod { .. }), "{why:?}");
    assert!(why.to_string().contains("exit code 143"), "{why}");
    assert!(why.yields_to_force());
    assert!(stage.attempts.is_empty());
    let output = taken(stage.request(FORCE));
    let step = &output.steps[0];
    assert_eq!((step.step.as_str(), step.exit_code), ("SIGTERM", Some(143)));
    let note = step.note.as_ref().unwrap();
    assert!(
        note.starts_with("forced: SIGTERM would end the sidecar with exit code 143"),
        "{note}"
    );
    assert_eq!(stage.attempts.len(), 1);
}

#[test]
fn a_dry_run_does_nothing() {
    let mut stage = finished(Mode::Observe, pod(RestartPolicy::Never, &["app"]));
    let (log, state_reports) = (stage.log.len(), stage.state_reports.len());
    assert_eq!(taken(stage.request_with(QUIT, true)).steps.len(), 1);
    stage.pass(Duration::from_secs(60));
    assert!(stage.attempts.is_empty());
    assert_eq!(
        (stage.log.len(), stage.state_reports.len()),
        (log, state_reports)
    );
}

#[test]
fn a_dry_run_reports_the_drain() {
    let note = |drain: Option<&str>| {
        let mut spec = pod(RestartPolicy::Never, &["app"]);
        let drain = drain.map(|time| ("usher.dev/drain".to_owned(), time.to_owned()));
        spec.annotations.extend(drain);
        let mut stage = finished(Mode::Observe, spec);
        let mut steps = taken(stage.request(QUIT)).steps;
        let step = steps.remove(0);
        (step.step, step.note)
    };
    let (step, output) = note(Some("5s"));
    assert_eq!(step, "POST :15020/drain");
    assert_eq!(output.as_deref(), Some("it drains for 5s first"));
    assert_eq!(note(None), ("POST :15020/quitquitquit".to_owned(), None));
}

#[test]
fn forced_quit_retries_a_failed_sidecar() {
    let mut stage = finished(Mode::Enforce, failing());
    assert!(
        stage.log.iter().any(|line| line.contains("gave-up")),
        "{:?}",
        stage.log
    );
    taken(stage.request(FORCE));
    assert_eq!(stage.attempts.len(), 1);
}

#[test]
fn request_for_an_unknown_or_deleted_pod_is_rejected() {
    let mut stage = Stage::new(Mode::Enforce, pod(RestartPolicy::Never, &["app"]));
    assert_eq!(refused(stage.request(QUIT)), Refused::NoPod);
    stage.send(Event::PodAppeared(uid()));
    assert!(matches!(refused(stage.request(QUIT)), Refused::Unknown(_)));
    stage.spec.deleting = true;
    stage.list();
    for name in ["app", PROXY] {
        stage.start(name, &run_of(name));
    }
    let why = refused(stage.request(FORCE));
    assert!(matches!(why, Refused::Skipped(_)), "{why:?}");
    assert!(stage.attempts.is_empty());
}

#[test]
fn pod_with_hidden_processes_is_never_quit() {
    let mut spec = pod(RestartPolicy::Never, &["app"]);
    status(&mut spec, "app", "a", RunState::Running);
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.send(Event::PodAppeared(uid()));
    stage.appear("a");
    stage.send(Event::container(key("a"), ContainerChange::Hidden));
    stage.list();
    for verb in [QUIT, FORCE] {
        assert_eq!(refused(stage.request(verb)), Refused::Hidden);
    }
}

#[test]
fn request_ends_with_the_pod() {
    let mut stage = finished(Mode::Observe, pod(RestartPolicy::Never, &["app"]));
    taken(stage.request(QUIT));
    stage.take();
    stage.spec.deleting = true;
    stage.list();
    stage.outcome("i", Outcome::Refused);
    stage.pass(Duration::from_secs(60));
    assert_eq!(stage.attempts.len(), 1, "{:?}", stage.take());
}

#[test]
fn request_ends_when_the_apps_restart() {
    let mut spec = pod(RestartPolicy::Never, &["app", "shipper"]);
    let named = ("usher.dev/sidecars".to_owned(), "shipper".to_owned());
    spec.annotations.extend([named]);
    spec.containers[1].restart_rules.push(RestartRule {
        codes: vec![3],
        within: true,
        whole_pod: true,
    });
    let mut stage = finished(Mode::Observe, spec);
    let output = taken(stage.request(QUIT));
    let order: Vec<&str> = output
        .steps
        .iter()
        .map(|step| step.container.as_str())
        .collect();
    assert_eq!(order, ["shipper", PROXY]);
    stage.outcome("s", Outcome::Signalled);
    // Its exit restarts all containers.
    stage.exit("s", 3);
    stage.pass(Duration::from_secs(60));
    let attempts: Vec<String> = stage
        .attempts
        .iter()
        .map(|(_key, step)| step.to_string())
        .collect();
    assert_eq!(attempts, ["SIGTERM"]);
}
