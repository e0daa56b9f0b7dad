//! A dry run forecasts exactly what the engine then does.

use std::time::Duration;

use super::{
    hold::{bare, held, istio},
    stage::{PROXY, Stage, id, key, pod, uid},
};
use crate::{
    Event,
    admin::{Acts, Allowed, Forecast},
    decision::Verb,
    pod::{
        container_change::ContainerChange,
        restart_policy::RestartPolicy,
        spec::{Pod, RunState, Status},
    },
    recipe::ExitCode,
    settings::{config::Config, mode::Mode},
};

impl Stage {
    pub(super) fn forecast(&self, mode: Option<Mode>) -> Forecast {
        self.engine.forecast(self.now, &uid(), mode).unwrap()
    }
}

fn annotated(key: &str, value: &str) -> Pod {
    let mut spec = pod(RestartPolicy::Never, &["app"]);
    spec.annotations.insert(key.to_owned(), value.to_owned());
    spec
}

#[test]
fn forecast_matches_the_action() {
    let plain = || pod(RestartPolicy::Never, &["app"]);
    let table = [
        (Mode::Enforce, plain(), [Acts::Later, Acts::Now]),
        (Mode::Observe, plain(), [Acts::No, Acts::No]),
        (Mode::Off, plain(), [Acts::No, Acts::No]),
        (
            Mode::Enforce,
            annotated("usher.dev/quit", "false"),
            [Acts::No, Acts::No],
        ),
        (
            Mode::Enforce,
            annotated("usher.dev/quit-delay", "1m"),
            [Acts::Later, Acts::Later],
        ),
        (
            Mode::Enforce,
            pod(RestartPolicy::Always, &["app"]),
            [Acts::No, Acts::No],
        ),
    ];
    for (mode, spec, expected) in table {
        let mut stage = Stage::new(mode, spec);
        stage.run_all();
        let before = stage.forecast(None);
        assert_eq!(before.quit.acts, expected[0], "{before:?}");
        assert!(!before.quit.because.is_empty() && stage.attempts.is_empty());
        stage.exit("a", 0);
        let after = stage.forecast(None);
        assert_eq!(after.quit.acts, expected[1], "{after:?}");
        let acted = !stage.attempts.is_empty();
        assert_eq!(acted, after.quit.acts == Acts::Now, "{after:?}");
        if let Some((_key, step)) = stage.attempts.first() {
            assert_eq!(after.quit.sidecars[0].ladder[0].step, step.to_string());
        }
    }
}

#[test]
fn each_reason_not_to_quit_is_reported_once() {
    let because = |spec: Pod, code: Option<u8>| {
        let mut stage = Stage::new(Mode::Enforce, spec);
        stage.run_all();
        if let Some(code) = code {
            stage.exit("a", code);
        }
        stage.pass(Duration::from_secs(2));
        stage.forecast(None).quit.because
    };
    let delay = || annotated("usher.dev/quit-delay", "1s");
    assert_eq!(because(delay(), None), ["app container app runs"]);
    // The delay is over.
    assert_eq!(because(delay(), Some(0)), [""; 0]);
    let opaque = |mut spec: Pod| {
        let app = spec.containers.iter_mut().find(|one| one.name == "app");
        app.unwrap().status = Some(Status {
            id: Some(id("a")),
            state: RunState::Running,
            last: None,
        });
        let mut stage = Stage::new(Mode::Enforce, spec);
        stage.send(Event::PodAppeared(uid()));
        stage.appear("a");
        stage.send(Event::container(key("a"), ContainerChange::Hidden));
        stage.list();
        stage.forecast(None).quit.because
    };
    let mut hidden = pod(RestartPolicy::Never, &["app"]);
    hidden.runtime_class = Some("gvisor".to_owned());
    let output = opaque(hidden.clone());
    assert!(
        output.len() == 1 && output[0].contains("gvisor"),
        "{output:?}"
    );
    hidden.containers.retain(|one| one.name != PROXY);
    let output = opaque(hidden);
    assert!(
        output.len() == 1 && output[0].contains("sidecar"),
        "{output:?}"
    );
}

#[test]
fn dry_run_accepts_another_mode() {
    let mut stage = Stage::new(Mode::Observe, pod(RestartPolicy::Never, &["app"]));
    stage.run_all();
    stage.exit("a", 0);
    let real = stage.forecast(None);
    assert_eq!(
        real.quit.because,
        ["the mode is observe: it is only recorded"]
    );
    let what_if = stage.forecast(Some(Mode::Enforce));
    assert_eq!(
        (what_if.quit.acts, what_if.quit.because.len()),
        (Acts::Now, 0)
    );
    assert_eq!(what_if.what_if.as_deref(), Some("enforce"));
    assert!(stage.attempts.is_empty());
}

#[test]
fn each_step_has_a_reason_and_a_description() {
    let mut spec = pod(RestartPolicy::Never, &["app", "sql"]);
    let sql = spec.containers.iter_mut().find(|one| one.name == "sql");
    sql.unwrap().image = "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.27.0".to_owned();
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.run_all();
    let quit = stage.forecast(None).quit;
    // The mesh proxy is the last one.
    let names: Vec<&str> = quit
        .sidecars
        .iter()
        .map(|one| one.container.as_str())
        .collect();
    assert_eq!(names, ["sql", PROXY]);
    let sql = &quit.sidecars[0];
    assert_eq!(sql.version.as_deref(), Some("2.27"));
    assert!(sql.recognized_by.contains("image"), "{sql:?}");
    assert_eq!(sql.left_out.len(), 2, "{sql:?}");
    let term = &sql.ladder[0];
    assert_eq!((term.step.as_str(), term.exit_code), ("SIGTERM", Some(143)));
    // Whether SIGTERM is allowed depends on the exit code of the app.
    assert_eq!(term.allowed, Allowed::Depends, "{term:?}");
    stage.exit("a", 0);
    let term = stage.forecast(None).quit.sidecars[0].ladder[0].clone();
    assert_eq!(term.allowed, Allowed::No, "{term:?}");
    assert!(term.why.unwrap().contains("exit code 143"));
    let proxy = &quit.sidecars[1].ladder[0];
    assert_eq!(proxy.allowed, Allowed::Yes);
    assert!(
        proxy.chosen.starts_with("with version") || proxy.chosen == "always",
        "{proxy:?}"
    );
    assert!(proxy.next_after_ms >= proxy.takes_ms);
}

/// The steps of a container with their exit codes and sources; omitted steps follow, each after a `-`.
fn steps(stage: &Stage, name: &str) -> Vec<String> {
    let sidecars = stage.forecast(None).quit.sidecars;
    let sidecar = sidecars.into_iter().find(|one| one.container == name);
    let sidecar = sidecar.unwrap();
    let ladder = sidecar.ladder.iter();
    let ladder = ladder.map(|ladder_step| {
        format!(
            "{} {}: {}",
            ladder_step.step,
            ExitCode::from(ladder_step.exit_code),
            ladder_step.chosen
        )
    });
    let left_out = sidecar.left_out.iter();
    let left_out = left_out.map(|one| {
        format!(
            "- {} {}: {}",
            one.step,
            ExitCode::from(one.exit_code),
            one.why
        )
    });
    ladder.chain(left_out).collect()
}

#[test]
fn each_step_names_its_source() {
    let mut spec = pod(RestartPolicy::Never, &["app", "tool"]);
    let notes = [
        ("usher.dev/sidecars", "tool"),
        ("usher.dev/drain", "5s"),
        ("usher.dev/allow-pod-failure", "true"),
    ];
    let notes = notes.map(|(key, value)| (key.to_owned(), value.to_owned()));
    spec.annotations.extend(notes);
    let mut stage = Stage::new(Mode::Enforce, spec.clone());
    let config = Config::parse("test", "{ladder: {kill: true}}").unwrap();
    stage.configure(config);
    stage.run_all();
    assert_eq!(
        steps(&stage, "tool"),
        [
            "SIGTERM 0: annotation usher.dev/sidecars",
            "SIGKILL 137: configuration: ladder.kill"
        ]
    );
    assert_eq!(
        steps(&stage, PROXY),
        [
            "POST :15020/drain 0: annotation usher.dev/drain",
            "POST :15020/quitquitquit 0: with version from 1.26",
            "POST :15000/quitquitquit 0: with version from 1.4",
            "SIGTERM 0: always",
            "SIGKILL 137: configuration: ladder.kill"
        ]
    );
    // A step that the ladder already has is not listed as omitted. All others are, with the reason.
    let proxy = spec.containers.iter_mut().find(|one| one.name == PROXY);
    proxy.unwrap().image = "istio/proxyv2:1.2.10".to_owned();
    spec.annotations.clear();
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.run_all();
    assert_eq!(
        steps(&stage, PROXY),
        [
            "SIGTERM 0: always",
            "- POST :15020/quitquitquit 0: only with version from 1.26",
            "- POST :15000/quitquitquit 0: only with version from 1.4",
            "- POST :15020/quitquitquit 0: only with version 1.3 to below 1.26"
        ]
    );
}

#[test]
fn a_dry_run_lists_held_ports_and_starts() {
    let mut stage = held(Mode::Enforce, istio());
    let before = stage.forecast(None).hold;
    assert_eq!((before.acts, before.deadline_ms), (Acts::Later, 30_000));
    let held_port = &before.held_ports[0];
    assert_eq!((held_port.port, held_port.sidecar.as_str()), (15001, PROXY));
    assert_eq!(
        held_port.released_when,
        "GET :15021/healthz/ready is answered with 2xx, or 2s after a process listens on :15001"
    );
    assert_eq!(before.exempt_uids, [1337]);
    stage.hold();
    let forecast = stage.forecast(None).hold;
    assert_eq!(forecast.acts, Acts::Now, "{forecast:?}");
    let mut spec = istio();
    let start = ("usher.dev/hold".to_owned(), "start".to_owned());
    spec.annotations.extend([start]);
    let stage = held(Mode::Observe, spec);
    let hold = stage.forecast(None).hold;
    assert_eq!(hold.acts, Acts::No);
    assert_eq!(
        (hold.starts[0].container.as_str(), hold.starts[0].limit_ms),
        ("app", Some(30_000))
    );
    assert_eq!(stage.forecast(Some(Mode::Enforce)).hold.acts, Acts::Later);
    let mut stage = bare(Mode::Enforce, istio());
    stage.run_all();
    let late = stage.forecast(None).hold;
    assert_eq!(late.acts, Acts::No, "{late:?}");
}

#[test]
fn a_dry_run_reports_each_phase_of_a_hold() {
    let forecast = |stage: &Stage, mode: Option<Mode>| {
        let hold = stage.forecast(mode).hold;
        (hold.acts, hold.because)
    };
    let [observe, unbegun] = [
        "the mode is observe: refused connections are only counted",
        "its apps have not begun",
    ];
    let (no, later) = (Acts::No, Acts::Later);
    let expected = |acts: Acts, because: &[&str]| {
        let because: Vec<String> = because.iter().map(|&why| why.to_owned()).collect();
        (acts, because)
    };
    let mut stage = held(Mode::Enforce, istio());
    stage.announce();
    let moving = expected(Acts::Now, &["its ports are being held or released"]);
    assert_eq!(forecast(&stage, None), moving);
    stage.armed();
    let waits = expected(Acts::Now, &["its connections wait, for at most 30 s yet"]);
    assert_eq!(forecast(&stage, None), waits);
    stage.request(Verb::Release);
    assert_eq!(forecast(&stage, None), moving);
    let off = held(Mode::Off, istio());
    let is_off = "the mode is off: nothing is decided";
    assert_eq!(forecast(&off, None), expected(no, &[is_off, unbegun]));
    // Observe mode only counts connections.
    let mut stage = held(Mode::Observe, istio());
    stage.hold();
    assert_eq!(forecast(&stage, None), expected(no, &[observe, unbegun]));
    let would = expected(Acts::Now, &["its sidecars are not ready yet"]);
    assert_eq!(forecast(&stage, Some(Mode::Enforce)), would);
    // An operator's request overrides the mode and the opt-out.
    let mut spec = istio();
    let not = ("usher.dev/hold".to_owned(), "false".to_owned());
    spec.annotations.extend([not]);
    let mut stage = held(Mode::Observe, spec);
    let (acts, because) = forecast(&stage, None);
    assert_eq!((acts, because.len()), (no, 3), "{because:?}");
    assert!(because[0].contains("usher.dev/hold"), "{because:?}");
    stage.request(Verb::Hold);
    assert_eq!(forecast(&stage, None), expected(later, &[unbegun]));
    // The request does not apply to another mode.
    let (acts, because) = forecast(&stage, Some(Mode::Enforce));
    assert_eq!((acts, because.len()), (no, 2), "{because:?}");
}

#[test]
fn dry_run_reports_the_sidecar_stop_on_deletion() {
    let meshed = |policy| {
        let mut spec = pod(policy, &["app"]);
        spec.containers[1].words = vec!["proxy".to_owned(), "sidecar".to_owned()];
        spec
    };
    let mut host = meshed(RestartPolicy::Always);
    host.host_network = true;
    for (spec, expected) in [
        (meshed(RestartPolicy::Never), None),
        (
            meshed(RestartPolicy::Always),
            Some("POST :15000/quitquitquit"),
        ),
        (pod(RestartPolicy::Always, &["app"]), Some("a gateway")),
        (host, Some("hostNetwork")),
    ] {
        let mut stage = Stage::new(Mode::Observe, spec);
        stage.run_all();
        let forecast = stage.forecast(None);
        let on_deletion = forecast.quit.sidecars[0].on_deletion.as_deref();
        let fits = match (on_deletion, expected) {
            (Some(text), Some(part)) => text.contains(part),
            (text, part) => text == part,
        };
        assert!(fits, "{on_deletion:?} {expected:?}");
    }
}

#[test]
fn a_dry_run_lists_what_is_unknown() {
    let mut stage = Stage::new(Mode::Enforce, annotated("usher.dev/quit", "maybe"));
    stage.namespace = None;
    stage.send(Event::PodAppeared(uid()));
    assert_eq!(stage.engine.forecast(stage.now, &uid(), None), None);
    stage.list();
    stage.pass(Duration::from_millis(1));
    let forecast = stage.forecast(None);
    assert_eq!(
        forecast.unknown,
        ["what its Namespace says", "what the node's kernel can hold"]
    );
    assert!(forecast.ignored[0].contains("\"maybe\""), "{forecast:?}");
}

#[test]
fn stop_signals_are_forecast_where_the_pod_requests_it() {
    let forecast = |spec: Pod, mode| {
        let mut stage = Stage::new(Mode::Off, spec);
        stage.run_all();
        stage.forecast(Some(mode)).linger
    };
    assert_eq!(
        forecast(annotated("usher.dev/linger", "false"), Mode::Enforce),
        None
    );
    let requested = || annotated("usher.dev/linger", "10s");
    let linger = forecast(requested(), Mode::Enforce).unwrap();
    assert_eq!(
        (linger.acts, linger.mode.as_str()),
        (Acts::Later, "enforce")
    );
    assert_eq!(linger.sidecars[0].limit_ms, Some(10_000));
    let observed = forecast(requested(), Mode::Observe).unwrap();
    assert_eq!(observed.acts, Acts::No);
}
