//! Deadlines of holds, and the ports that they release.

use super::super::hold::*;
use crate::base::id::{ContainerId, ContainerKey};
use crate::pod::container_change::ContainerChange;

#[test]
fn deadline_releases_held_ports() {
    let mut stage = held(Mode::Enforce, istio());
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.take_hold();
    stage.pass(seconds(29));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take_hold(), ["release all"]);
    stage.released(2);
    let output = stage.take_hold();
    assert!(
        output[0].starts_with("hold-released: the sidecar is not ready at the deadline"),
        "{output:?}"
    );
    assert!(
        output[0].ends_with("2 connections had waited, the longest 240 ms"),
        "{output:?}"
    );
}

/// The app was refused, and the agent observes its exit before it reads the held ports.
#[test]
fn a_release_by_the_kernel_is_reported_as_the_deadline() {
    let went = Tally {
        connections: 2,
        by_kernel: 1,
        longest: Duration::from_millis(5500),
        ago: Duration::from_millis(20),
        lost: 0,
    };
    let rows = [
        ("open", 0, 6, "5000 ms"),
        ("closed", 0, 26, "25.0 s"),
        // Renewed twice.
        ("closed", 16, 16, "31.0 s"),
    ];
    for (on_deadline, before, frozen, released) in rows {
        let mut spec = istio();
        spec.annotations = [
            ("usher.dev/on-deadline", on_deadline),
            ("usher.dev/hold-deadline", "5s"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let mut stage = held(Mode::Enforce, spec);
        stage.hold();
        stage.start("app", "a");
        stage.start(PROXY, "i");
        stage.pass(seconds(before));
        stage.exit("a", 1);
        assert_eq!(stage.take_hold().last().unwrap(), "release all");
        // In one step: the agent did not run at the deadline.
        stage.now = stage.now + seconds(frozen);
        stage.tallied(went);
        let expected = format!(
            "hold-released: the sidecar is not ready at the deadline: connections are released and may be refused, {released} \
             after the hold began; 2 connections had waited, the longest 4520 ms"
        );
        assert_eq!(stage.take_hold()[0], expected);
    }
}

#[test]
fn deadline_counts_from_the_first_app_s_start() {
    let mut stage = held(Mode::Enforce, istio());
    stage.hold();
    let renew = "renew 15001 30s";
    // The proxy's image is still being pulled.
    stage.pass(seconds(9));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take_hold(), [renew]);
    stage.start(PROXY, "i");
    assert_eq!(stage.take_hold(), [WATCH]);
    stage.pass(seconds(60));
    assert_eq!(stage.take_hold(), [renew; 6]);
    stage.pass(seconds(5));
    stage.start("app", "a");
    assert_eq!(stage.take_hold(), [renew]);
    stage.pass(seconds(29));
    stage.start("app", "b");
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take_hold(), ["release all"]);
}

/// The agent stopped while the image of the app was pulled.
#[test]
fn hold_that_the_kernel_has_ended_does_not_begin_anew_for_an_app_that_runs() {
    let stopped = || {
        let mut stage = held(Mode::Enforce, istio());
        stage.hold();
        let pause = ContainerKey {
            pod: uid(),
            id: ContainerId::parse(sandbox().as_str()).unwrap(),
        };
        // In one step: no timer ran.
        stage.now = stage.now + seconds(31);
        stage.send(Event::container(pause, ContainerChange::Appeared));
        stage.start(PROXY, "i");
        assert_eq!(stage.take_hold(), [WATCH]);
        stage
    };
    // Its name may never be known.
    let mut stage = stopped();
    stage.send(Event::container(key("a"), ContainerChange::Appeared));
    stage.pass(Duration::from_millis(99));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.pass(Duration::from_millis(1));
    assert_eq!(stage.take_hold(), ["release all"]);
    let mut stage = stopped();
    stage.start("app", "a");
    assert_eq!(stage.take_hold(), ["release all"]);
    stage.tallied(Tally {
        connections: 1,
        by_kernel: 1,
        ago: seconds(1),
        ..Tally::default()
    });
    let output = stage.take_hold();
    let expected = "hold-released: the sidecar is not ready at the deadline";
    assert!(output[0].starts_with(expected), "{output:?}");
    assert_eq!(output[1..], ["forget"]);
    // No app has started: nothing was refused.
    let mut stage = stopped();
    stage.pass(Duration::from_millis(99));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.pass(Duration::from_millis(1));
    assert_eq!(stage.take_hold(), ["renew 15001 30s"]);
    stage.start("app", "a");
    stage.pass(seconds(29));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn app_of_the_sandbox_before_starts_no_deadline() {
    let mut stage = held(Mode::Enforce, pod(RestartPolicy::Always, &["app"]));
    stage.start("app", "a");
    stage.exit("a", 1);
    stage.hold();
    stage.pass(seconds(16));
    assert_eq!(stage.take_hold(), ["renew 15001 30s"]);
}

/// A pod whose held ports stay closed after its deadline of 5 s.
fn closed() -> Stage {
    let mut spec = istio();
    let annotations = [
        ("usher.dev/on-deadline".to_owned(), "closed".to_owned()),
        ("usher.dev/hold-deadline".to_owned(), "5s".to_owned()),
    ];
    spec.annotations = annotations.into();
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    assert_eq!(stage.take_hold(), ["arm 15001 25s, users [1337]"]);
    stage.armed();
    stage
}

/// No app has started. If the agent exits now, the kernel releases nothing before the lease expires.
#[test]
fn a_deadline_that_is_put_off_has_its_lease_again() {
    let mut stage = closed();
    stage.take_hold();
    stage.pass(seconds(3));
    assert_eq!(stage.take_hold(), ["renew 15001 25s"]);
}

#[test]
fn hold_that_stays_closed_is_renewed_by_lease() {
    let mut stage = closed();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.take_hold();
    stage.pass(seconds(16));
    let stays = "hold-extended: the sidecar is not ready after 5s; connections stay held, as usher.dev/on-deadline requests";
    let renew = "renew 15001 20s";
    assert_eq!(stage.take_hold(), [stays, renew, renew]);
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn counting_ends_at_a_mode_change_and_at_the_deadline() {
    let mut stage = held(Mode::Observe, istio());
    stage.hold();
    stage.hold_mode = Mode::Enforce;
    stage.mode(Mode::Off);
    assert_eq!(stage.take_hold(), ["release all"]);
    let mut spec = istio();
    let closed = [("usher.dev/on-deadline".to_owned(), "closed".to_owned())];
    spec.annotations = closed.into();
    let mut stage = held(Mode::Observe, spec);
    stage.hold();
    stage.start("app", "a");
    stage.take_hold();
    stage.pass(seconds(31));
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn pod_that_is_counted_is_held_if_the_mode_changes_before_an_app_starts() {
    for has_started in [false, true] {
        let mut stage = held(Mode::Observe, istio());
        stage.hold();
        if has_started {
            stage.start("app", "a");
        }
        stage.take_hold();
        stage.hold_mode = Mode::Enforce;
        stage.mode(Mode::Enforce);
        assert_eq!(stage.take_hold(), ["release all"]);
        stage.released(0);
        let output = stage.take_hold();
        let last = if has_started { "forget" } else { ARM };
        assert_eq!(output.last().unwrap(), last, "{output:?}");
    }
}

/// The image of the app is pulled for longer than the deadline.
#[test]
fn connections_are_counted_until_the_deadline_after_the_first_app_start() {
    let mut stage = held(Mode::Observe, istio());
    stage.hold();
    stage.pass(seconds(45));
    let renewed = stage.take_hold();
    let renew = |line: &String| line == "renew 15001 30s";
    assert!(
        !renewed.is_empty() && renewed.iter().all(renew),
        "{renewed:?}"
    );
    stage.start("app", "a");
    stage.take_hold();
    stage.pass(seconds(29));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn deadline_of_one_sidecar_comes_also_when_another_is_ready() {
    let mut stage = held(Mode::Enforce, two_sidecars());
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.start("daprd", "d");
    stage.probed(Probe::Listens { port: 3500 });
    stage.probed(Probe::Listens { port: 50001 });
    stage.take_hold();
    stage.pass(seconds(31));
    assert_eq!(stage.take_hold(), ["release all"]);
}
