//! Ports of the ladder that do not listen.

use super::*;

/// An Istio 1.24 whose Envoy has no admin port: the status port listens already, and the first port never opens.
#[test]
fn a_port_that_never_opens_does_not_delay_a_step_whose_port_listens() {
    let mut spec = pod(RestartPolicy::Never, &["app"]);
    spec.containers[1].image = "istio/proxyv2:1.24.3".to_owned();
    let mut stage = Stage::new(Mode::Enforce, spec);
    stage.run_all();
    stage.exit("a", 0);
    assert_eq!(stage.take(), ["pod-finished", ADMIN]);
    let begin = stage.now;
    let mut attempts = vec![ADMIN.to_owned()];
    while attempts.last().is_some_and(|last| last == ADMIN) {
        stage.outcome("i", Outcome::Refused);
        stage.pass(Duration::from_millis(250));
        attempts = stage.take();
    }
    assert_eq!(attempts, [STATUS]);
    let waited = stage.now.since(begin);
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    stage.outcome("i", Outcome::Accepted);
    assert_eq!(stage.take(), ["istio-proxy quit-accepted"]);
    // The proxy drains.
    stage.pass(Duration::from_secs(5));
    stage.exit("i", 0);
    assert_eq!(stage.take(), ["istio-proxy sidecar-ended as requested"]);
}

/// The first port never opens, and a request after the signal has a port that listens: the signal comes first.
#[test]
fn request_behind_a_signal_is_not_tried_before_it() {
    let text = "recipes: [{name: istio, recognize: [{name: [istio-proxy]}], quit: [\
        {post: {port: 15020, path: /quit}, code: 0}, {signal: SIGTERM, code: 0}, {post: {port: 15000, path: /quit}, code: 0}]}]";
    let config = crate::settings::config::Config::parse("test", text).unwrap();
    let mut stage = never();
    stage.configure(config);
    stage.run_all();
    stage.exit("a", 0);
    let mut attempts = stage.take();
    for _ in 0..100 {
        if let Some(last) = attempts.last().filter(|last| last.starts_with("i ")) {
            assert!(!last.contains(":15000"), "{attempts:?}");
            stage.outcome("i", Outcome::Refused);
        }
        if attempts.iter().any(|line| line == "i SIGTERM") {
            return;
        }
        stage.pass(Duration::from_millis(250));
        attempts.extend(stage.take());
    }
    panic!("{attempts:?}");
}

/// A sidecar that does not listen yet. The requests alternate between both ports until one of them opens.
#[test]
fn ports_that_do_not_listen_yet_are_tried_in_turn() {
    let mut stage = never();
    stage.run_all();
    stage.exit("a", 0);
    let mut attempts = stage.take();
    for _ in 0..12 {
        stage.outcome("i", Outcome::Refused);
        stage.pass(Duration::from_millis(250));
        attempts.extend(stage.take());
    }
    let last = &attempts[attempts.len() - 4..];
    assert!(last == [STATUS, ADMIN, STATUS, ADMIN] || last == [ADMIN, STATUS, ADMIN, STATUS]);
    let failed = |line: &String| line.contains("step-failed");
    assert!(!attempts.iter().any(failed), "{attempts:?}");
}

/// No port of the ladder has a listener. A sidecar that listens on another of its ports has started, so SIGTERM follows
/// at once. A sidecar without a listener may still be starting, so SIGTERM follows after the 5 s that the signal may
/// take.
#[test]
fn signal_is_not_delayed_by_ports_that_never_open() {
    let outbound = || Probe::Listens { port: 15001 };
    let other = || Probe::Listens { port: 3500 };
    // The successful probes, the time from the last one to the exit of the app, and the wait for the signal.
    let cases = [
        (
            "it listens on its outbound port",
            vec![outbound()],
            2_000,
            0..=500,
        ),
        ("it is ready", vec![outbound(), ready()], 2_000, 0..=500),
        ("it was ready long ago", vec![ready()], 9_000, 0..=500),
        (
            "it opened its first port just now",
            vec![outbound()],
            0,
            1_000..=2_000,
        ),
        ("nothing of it listens", vec![], 2_000, 5_000..=6_500),
        (
            "a port of something else listens",
            vec![other()],
            2_000,
            5_000..=6_500,
        ),
        (
            "nothing of it listens, and it is not young",
            vec![],
            8_000,
            2_000..=3_000,
        ),
    ];
    for (case, probes, before_ms, expected_ms) in cases {
        let mut stage = held(Mode::Enforce, pod(RestartPolicy::Never, &["app"]));
        stage.mode(Mode::Enforce);
        stage.announce();
        stage.armed();
        stage.start("app", "a");
        stage.start(PROXY, "i");
        stage.list();
        for probe in probes {
            stage.probed(probe);
        }
        stage.pass(Duration::from_millis(before_ms));
        stage.take();
        stage.exit("a", 0);
        let begin = stage.now;
        let mut done = stage.take();
        while !done.iter().any(|line| line == "i SIGTERM") {
            stage.outcome("i", Outcome::Refused);
            stage.pass(Duration::from_millis(50));
            done = stage.take();
            assert!(stage.now.since(begin) < Duration::from_secs(20), "{case}");
        }
        let waited = stage.now.since(begin).as_millis();
        assert!(expected_ms.contains(&waited), "{case}: {waited} ms");
    }
}

/// The wait for a port that may never open lasts as long as SIGTERM would take to end the sidecar (5 s for Dapr, 120 s
/// for Linkerd), and ends 10 s after its start. A process that a shell may still start receives no signal.
#[test]
fn ports_of_a_starting_sidecar_are_awaited_no_longer_than_its_signal_takes() {
    let cases = [
        ("Dapr by a mirror, with moved ports", 5_000..=6_500),
        ("Linkerd from a registry with one repository", 8_000..=9_500),
        (
            "Vault agent with a cache and its quit endpoint",
            8_000..=9_500,
        ),
    ];
    for (case, expected_ms) in cases {
        let mut stage = Stage::new(Mode::Enforce, pod_of(case));
        stage.send(Event::PodAppeared(uid()));
        for (number, container) in stage.spec.containers.clone().into_iter().enumerate() {
            stage.start(&container.name, &format!("r{number}"));
        }
        stage.list();
        stage.pass(Duration::from_secs(1));
        stage.exit("r0", 0);
        let begin = stage.now;
        let mut done = stage.take();
        while !done.iter().any(|line| line.starts_with("r1 SIGTERM")) {
            stage.outcome("r1", Outcome::Refused);
            stage.pass(Duration::from_millis(50));
            done = stage.take();
            assert!(stage.now.since(begin) < Duration::from_secs(20), "{case}");
        }
        let waited = stage.now.since(begin).as_millis();
        assert!(expected_ms.contains(&waited), "{case}: {waited} ms");
    }
}
