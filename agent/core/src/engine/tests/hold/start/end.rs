//! Reasons to release a start before its sidecar is ready.

use super::super::start::*;

#[test]
fn a_probe_limits_the_hold_and_is_reported_first() {
    let mut spec = requesting_held_start(istio());
    spec.containers[0].probes = vec![liveness(0, 5, 4)];
    let mut stage = held(Mode::Enforce, spec.clone());
    stage.announce();
    assert_eq!(stage.take_hold(), [ARM, "starts [app 10s]"]);
    stage.armed();
    let because =
        "(for at most 10s, because the kubelet ends it by its livenessProbe 15s after its start)";
    assert_eq!(
        stage.take_hold()[1],
        format!("{ARMED}; so are the starts of app {because}")
    );
    stage.reported("a", "app", StartResult::Marked);
    stage.start("app", "a");
    stage.reported("a", "app", StartResult::Held);
    assert!(stage.take_hold()[0].ends_with(
        "for at most 10s, because the kubelet ends it by its livenessProbe 15s after its start"
    ));
    let at_limit = StartResult::Released {
        held: Some(seconds(10)),
        at_limit: true,
        ran: false,
    };
    stage.reported("a", "app", at_limit);
    let went = "start-released: its limit has passed: it starts before its probes fail, and its connections stay held; its start was held for 10.0 s";
    assert_eq!(stage.take_hold(), [went]);

    // A probe that allows at least the deadline is no limit.
    for probe in [liveness(0, 10, 5), liveness(0, 30, 4)] {
        spec.containers[0].probes = vec![probe];
        let mut stage = held(Mode::Enforce, spec.clone());
        stage.announce();
        assert_eq!(stage.take_hold(), [ARM, "starts [app 30s]"]);
        stage.armed();
        assert_eq!(
            stage.take_hold()[1],
            format!("{ARMED}; so are the starts of app")
        );
    }

    spec.containers[0].probes = vec![liveness(0, 1, 1)];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    let not = "start-not-held: its start is not held: its livenessProbe lets the kubelet end it 0ns after its start; its connections are held";
    assert_eq!(stage.take_hold(), [ARM, not]);
}

#[test]
fn reasons_to_release_a_start_before_readiness() {
    type Change = fn(&mut Stage);
    let cases: [(&str, Change); 5] = [
        ("the sidecar is not ready at the deadline", |stage| {
            stage.pass(seconds(31));
        }),
        ("being deleted", |stage| {
            stage.spec.deleting = true;
            stage.list();
        }),
        ("no longer request the hold", |stage| {
            stage.hold_mode = Mode::Off;
            stage.mode(Mode::Off);
        }),
        ("the sidecar ended", |stage| stage.exit("i", 0)),
        ("no longer request the hold", |stage| {
            stage.spec.annotations.clear();
            stage.list();
        }),
    ];
    for (reason, change) in cases {
        let mut stage = held(Mode::Enforce, requesting_held_start(istio()));
        stage.start_held();
        stage.start(PROXY, "i");
        stage.take_hold();
        change(&mut stage);
        assert!(
            stage.take_hold().contains(&"starts []".to_owned()),
            "{reason}"
        );
        stage.reported("a", "app", released(5));
        let output = stage.take_hold();
        let went = output
            .iter()
            .any(|line| line.starts_with("start-released") && line.contains(reason));
        assert!(went, "{reason}: {output:?}");
    }
}

#[test]
fn start_whose_container_ends() {
    let mut stage = held(
        Mode::Enforce,
        requesting_held_start(pod(RestartPolicy::OnFailure, &["app"])),
    );
    stage.start_held();
    stage.exit("a", 2);
    assert_eq!(stage.take_hold(), ["release start"]);
    stage.reported("a", "app", released(40));
    let went = "start-released: the container ended while its start was held; its start was held for 40 ms";
    assert_eq!(stage.take_hold(), [went]);
    // The app's next run is held as well.
    stage.reported("b", "app", StartResult::Marked);
    stage.start("app", "b");
    stage.reported("b", "app", StartResult::Held);
    assert!(stage.take_hold()[0].starts_with("start-held"));
    assert_eq!(stage.engine.census().held_starts, 1);
}

#[test]
fn start_is_released_when_the_holder_exits() {
    let mut stage = held(Mode::Enforce, requesting_held_start(istio()));
    stage.start_held();
    stage.pass(seconds(2));
    stage.reported("a", "app", StartResult::Lost);
    let went = "start-released: the process that held it ended: it starts, and its connections stay held; its start was held for 2000 ms";
    assert_eq!(stage.take_hold(), [went]);
    let mut stage = held(Mode::Enforce, requesting_held_start(istio()));
    stage.hold();
    stage.reported("a", "app", StartResult::Marked);
    stage.reported("a", "app", StartResult::Lost);
    let not = "start-not-held: its start is not held: the process that holds starts ended; its connections are held";
    assert_eq!(stage.take_hold(), [not]);
    let unable = StartResult::Unable("its root file system is ext4".to_owned());
    stage.reported("b", "app", unable);
    let not = "start-not-held: its start is not held: its root file system is ext4; its connections are held";
    assert_eq!(stage.take_hold(), [not]);
}

#[test]
fn denied_exec_costs_its_own_container_s_hold() {
    let mut spec = requesting_held_start(istio());
    spec.containers.push(container("other"));
    spec.restart_policy = RestartPolicy::OnFailure;
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    assert_eq!(stage.take_hold()[1], "starts [app 30s, other 30s]");
    stage.armed();
    stage.reported("a", "app", StartResult::Marked);
    stage.reported("b", "other", StartResult::Marked);
    stage.start("app", "a");
    stage.start("other", "b");
    stage.take_hold();
    stage.reported("a", "app", StartResult::Denied("EACCES".to_owned()));
    let not = "start-not-held: its start is not held: its exec failed with EPERM, because the kernel could not open the program for usher (EACCES); its connections are held";
    assert_eq!(stage.take_hold(), [not, "starts [other 30s]"]);
    stage.reported("b", "other", StartResult::Held);
    assert!(stage.take_hold()[0].starts_with("start-held"));
    // The next run starts without a mark: it would be denied again.
    stage.exit("a", 128);
    stage.start("app", "c");
    assert_eq!(stage.take_hold(), [""; 0]);
    assert_eq!(stage.engine.census().held_starts, 1);
}

#[test]
fn node_that_cannot_hold_starts_for_a_while() {
    let mut stage = held(Mode::Enforce, requesting_held_start(istio()));
    stage.start_held();
    let reason = "an exec was refused".to_owned();
    stage.send(Event::StartSupport(Err(reason)));
    let not = "start-not-held: its start is not held: the node cannot hold starts: an exec was refused; its connections are held";
    assert_eq!(stage.take_hold(), [not, "starts []"]);
    stage.send(Event::StartSupport(Ok(())));
    assert_eq!(stage.take_hold(), ["starts [app 30s]"]);
}

#[test]
fn removed_pod_drops_its_held_starts() {
    let mut stage = held(Mode::Enforce, requesting_held_start(istio()));
    stage.start_held();
    stage.send(Event::PodGone(uid()));
    let output = stage.take_hold();
    assert_eq!(output[0], "starts []", "{output:?}");
    // Later reports match no pod.
    stage.reported("a", "app", released(5));
    assert_eq!(stage.take_hold(), [""; 0]);
}
