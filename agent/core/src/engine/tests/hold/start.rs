//! Starts that wait, and those that do not.

use super::*;
use crate::{
    event::ContainerKey,
    id::ContainerId,
    pod::{KubeletProbe, ProbeKind},
    start::Told,
};

fn asked_for(mut spec: Pod) -> Pod {
    let start = [("usher.dev/hold".to_owned(), "start".to_owned())];
    spec.annotations.extend(start);
    spec
}

fn liveness(delay: u64, period: u64, failures: u32) -> KubeletProbe {
    KubeletProbe {
        kind: ProbeKind::Liveness,
        in_container: false,
        initial_delay: seconds(delay),
        period: seconds(period),
        failures,
    }
}

impl Stage {
    fn told(&mut self, run: &str, name: &str, told: Told) {
        let (key, name) = (key(run), name.to_owned());
        self.send(Event::Start { key, name, told });
    }

    /// Announced and armed, its app's start marked and held.
    fn start_held(&mut self) {
        self.shut();
        self.told("a", "app", Told::Marked);
        self.start("app", "a");
        self.told("a", "app", Told::Held);
        self.said();
    }
}

fn let_go(millis: u64) -> Told {
    Told::LetGo {
        held: Some(Duration::from_millis(millis)),
        at_limit: false,
        ran: false,
    }
}

#[test]
fn start_waits_from_the_announcement_until_the_sidecar_is_ready() {
    let mut stage = held(Mode::Enforce, asked_for(istio()));
    stage.announce();
    assert_eq!(stage.said(), [ARM, "starts [app 30s]"]);
    stage.armed();
    let armed = format!("{ARMED}; so do the starts of app");
    assert_eq!(stage.said()[1], armed);
    stage.told("a", "app", Told::Marked);
    stage.start("app", "a");
    assert_eq!(stage.said(), [""; 0]);
    stage.told("a", "app", Told::Held);
    let waits = "start-held: it was not executed yet and waits for the sidecar, for at most 30s";
    assert_eq!(stage.said(), [waits]);
    assert_eq!(stage.engine.census().held_starts, 1);
    stage.start(PROXY, "i");
    assert_eq!(stage.said(), [WATCH]);
    stage.probed(ready());
    assert_eq!(stage.said(), ["open all", "starts []"]);
    stage.told("a", "app", let_go(1234));
    let went = "start-let-go: the sidecar is ready; its start had waited 1234 ms";
    assert_eq!(stage.said(), [went]);
    assert_eq!(stage.engine.census().held_starts, 0);
    stage.opened(0);
    stage.said();
    // Started again under a ready proxy.
    stage.exit("a", 1);
    stage.start("app", "b");
    assert_eq!(stage.said(), [""; 0]);
}

#[test]
fn only_where_it_is_asked_for_and_enforced() {
    let mut stage = held(Mode::Enforce, istio());
    stage.announce();
    assert_eq!(stage.said(), [ARM]);
    let mut stage = held(Mode::Observe, asked_for(istio()));
    stage.announce();
    assert_eq!(stage.said(), [format!("{ARM}, count")]);
    stage.armed();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.pass(seconds(3));
    stage.probed(ready());
    stage.opened(2);
    let said = stage.said();
    let would = said.iter().find(|line| line.starts_with("would-hold"));
    let would = would.unwrap();
    assert!(
        would.ends_with("; the start of app would have been held for 3000 ms"),
        "{would}"
    );
}

#[test]
fn node_that_cannot_hold_starts_holds_connections_and_says_so() {
    let mut stage = bare(Mode::Enforce, asked_for(istio()));
    stage.send(Event::Kernel(Features {
        hold: Ok(()),
        dns: None,
        start: Err("fanotify: not permitted".to_owned()),
    }));
    stage.send(Event::PodAppeared(uid()));
    stage.list();
    stage.announce();
    let not = "start-not-held: its start is not held: the node cannot: fanotify: not permitted; its connections wait";
    assert_eq!(stage.said(), [ARM, not]);
    stage.armed();
    assert_eq!(stage.said()[1], ARMED);
    // It is said once.
    stage.list();
    assert_eq!(stage.said(), [""; 0]);
}

#[test]
fn apps_only_and_none_that_others_wait_for() {
    let mut spec = asked_for(istio());
    for name in ["db", "other"] {
        spec.containers.push(container(name));
    }
    let ports = [("usher.dev/hold-ports".to_owned(), "db=5432".to_owned())];
    spec.annotations.extend(ports);
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    assert_eq!(stage.said()[1], "starts [app 30s, other 30s]");
}

#[test]
fn probe_limits_the_hold_and_that_is_said_before() {
    let mut spec = asked_for(istio());
    spec.containers[0].probes = vec![liveness(0, 5, 4)];
    let mut stage = held(Mode::Enforce, spec.clone());
    stage.announce();
    assert_eq!(stage.said(), [ARM, "starts [app 10s]"]);
    stage.armed();
    let because =
        "(for at most 10s, since its livenessProbe lets the kubelet end it 15s after its start)";
    assert_eq!(
        stage.said()[1],
        format!("{ARMED}; so do the starts of app {because}")
    );
    stage.told("a", "app", Told::Marked);
    stage.start("app", "a");
    stage.told("a", "app", Told::Held);
    assert!(stage.said()[0].ends_with(
        "for at most 10s, since its livenessProbe lets the kubelet end it 15s after its start"
    ));
    let at_limit = Told::LetGo {
        held: Some(seconds(10)),
        at_limit: true,
        ran: false,
    };
    stage.told("a", "app", at_limit);
    let went = "start-let-go: its limit has come: it starts before its probes fail, its connections wait on; its start had waited 10.0 s";
    assert_eq!(stage.said(), [went]);

    // One that allows more than the deadline is nobody's limit.
    spec.containers[0].probes = vec![liveness(0, 30, 4)];
    let mut stage = held(Mode::Enforce, spec.clone());
    stage.announce();
    assert_eq!(stage.said(), [ARM, "starts [app 30s]"]);

    spec.containers[0].probes = vec![liveness(0, 1, 1)];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    let not = "start-not-held: its start is not held: its livenessProbe lets the kubelet end it 0ns after its start; its connections wait";
    assert_eq!(stage.said(), [ARM, not]);
}

#[test]
fn what_lets_a_start_go_before_the_sidecar_is_ready() {
    type Change = fn(&mut Stage);
    let cases: [(&str, Change); 5] = [
        ("the deadline has come", |stage| stage.pass(seconds(31))),
        ("being deleted", |stage| {
            stage.spec.deleting = true;
            stage.list();
        }),
        ("do not want it", |stage| {
            stage.hold_mode = Mode::Off;
            stage.mode(Mode::Off);
        }),
        ("the sidecar ended", |stage| stage.exit("i", 0)),
        ("do not want it", |stage| {
            stage.spec.annotations.clear();
            stage.list();
        }),
    ];
    for (reason, change) in cases {
        let mut stage = held(Mode::Enforce, asked_for(istio()));
        stage.start_held();
        stage.start(PROXY, "i");
        stage.said();
        change(&mut stage);
        assert!(stage.said().contains(&"starts []".to_owned()), "{reason}");
        stage.told("a", "app", let_go(5));
        let said = stage.said();
        let went = said
            .iter()
            .any(|line| line.starts_with("start-let-go") && line.contains(reason));
        assert!(went, "{reason}: {said:?}");
    }
}

#[test]
fn doors_that_stay_shut_hold_no_start() {
    let mut spec = asked_for(istio());
    let closed = [("usher.dev/on-deadline".to_owned(), "closed".to_owned())];
    spec.annotations.extend(closed);
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    // The holder itself lets it go by then, whoever stays shut.
    assert_eq!(stage.said()[1], "starts [app 30s]");
}

#[test]
fn start_that_came_too_soon_is_said_when_the_doors_open() {
    let mut stage = held(Mode::Enforce, asked_for(istio()));
    stage.shut();
    // Nobody saw its root.
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.said();
    stage.probed(ready());
    let missed = "start-missed: it started before that could be held; its connections wait from hold-armed on";
    assert_eq!(stage.said(), ["open all", missed, "starts []"]);

    let mut stage = held(Mode::Enforce, asked_for(istio()));
    stage.shut();
    stage.told("a", "app", Told::Marked);
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.probed(ready());
    stage.said();
    let ran = |ran| Told::LetGo {
        held: None,
        at_limit: false,
        ran,
    };
    stage.told("a", "app", ran(true));
    assert_eq!(stage.said(), [missed]);
    // It is said once.
    stage.told("a", "app", ran(true));
    assert_eq!(stage.said(), [""; 0]);
    // One that had not run yet is none.
    stage.told("b", "app", Told::Marked);
    stage.told("b", "app", ran(false));
    assert_eq!(stage.said(), [""; 0]);
}

#[test]
fn start_that_came_too_soon_is_said_when_its_container_ends() {
    let mut stage = held(
        Mode::Enforce,
        asked_for(pod(RestartPolicy::OnFailure, &["app"])),
    );
    stage.shut();
    let gone = || Told::LetGo {
        held: None,
        at_limit: false,
        ran: false,
    };
    stage.told("a", "app", Told::Marked);
    stage.start("app", "a");
    stage.exit("a", 1);
    assert_eq!(stage.said(), ["let go"]);
    stage.told("a", "app", gone());
    let missed = "start-missed: it started before that could be held; its connections wait from hold-armed on";
    assert_eq!(stage.said(), [missed]);
    // The runtime gave one up before it had a process.
    stage.told("b", "app", Told::Marked);
    stage.told("b", "app", gone());
    assert_eq!(stage.said(), [""; 0]);
}

#[test]
fn start_whose_container_ends() {
    let mut stage = held(
        Mode::Enforce,
        asked_for(pod(RestartPolicy::OnFailure, &["app"])),
    );
    stage.start_held();
    stage.exit("a", 2);
    assert_eq!(stage.said(), ["let go"]);
    stage.told("a", "app", let_go(40));
    let went = "start-let-go: the container ended while it waited; its start had waited 40 ms";
    assert_eq!(stage.said(), [went]);
    // Its next run is held as well.
    stage.told("b", "app", Told::Marked);
    stage.start("app", "b");
    stage.told("b", "app", Told::Held);
    assert!(stage.said()[0].starts_with("start-held"));
    assert_eq!(stage.engine.census().held_starts, 1);
}

#[test]
fn holder_that_ends() {
    let mut stage = held(Mode::Enforce, asked_for(istio()));
    stage.start_held();
    stage.pass(seconds(2));
    stage.told("a", "app", Told::Lost);
    let went = "start-let-go: the process that held it ended: it starts, its connections wait; its start had waited 2000 ms";
    assert_eq!(stage.said(), [went]);
    let mut stage = held(Mode::Enforce, asked_for(istio()));
    stage.shut();
    stage.told("a", "app", Told::Marked);
    stage.told("a", "app", Told::Lost);
    let not = "start-not-held: its start is not held: the process that holds starts ended; its connections wait";
    assert_eq!(stage.said(), [not]);
    let unable = Told::Unable("its root file system is ext4".to_owned());
    stage.told("b", "app", unable);
    let not =
        "start-not-held: its start is not held: its root file system is ext4; its connections wait";
    assert_eq!(stage.said(), [not]);
}

#[test]
fn node_that_cannot_hold_them_any_more() {
    let mut stage = held(Mode::Enforce, asked_for(istio()));
    stage.start_held();
    let reason = "an exec was refused".to_owned();
    stage.send(Event::CannotHoldStarts(reason));
    let not = "start-not-held: its start is not held: the node cannot: an exec was refused; its connections wait";
    assert_eq!(stage.said(), [not, "starts []"]);
}

#[test]
fn with_init_containers_the_start_is_wished_for_before_connections_wait() {
    let mut spec = asked_for(istio());
    spec.init_containers = vec!["setup".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    assert_eq!(stage.said()[1], "starts [app 30s]");
    stage.start("setup", "s");
    stage.exit("s", 0);
    assert_eq!(stage.said(), [ARM]);
}

#[test]
fn pod_that_goes_takes_its_starts_with_it() {
    let mut stage = held(Mode::Enforce, asked_for(istio()));
    stage.start_held();
    stage.send(Event::PodGone(uid()));
    let said = stage.said();
    assert_eq!(said[0], "starts []", "{said:?}");
    // What is told after that is of nobody.
    stage.told("a", "app", let_go(5));
    assert_eq!(stage.said(), [""; 0]);
}

#[test]
fn app_that_ran_before_anybody_was_told_of_its_pod() {
    let mut stage = held(Mode::Enforce, asked_for(istio()));
    let pause = ContainerKey {
        pod: uid(),
        id: ContainerId::parse(sandbox().as_str()).unwrap(),
    };
    stage.send(Event::ContainerAppeared(pause));
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.said();
    stage.shut();
    stage.probed(ready());
    let missed = "start-missed: it started before that could be held; its connections wait from hold-armed on";
    assert_eq!(stage.said(), ["open all", missed, "starts []"]);
}

#[test]
fn app_that_ended_unheld_just_before_the_doors_opened() {
    let mut stage = held(
        Mode::Enforce,
        asked_for(pod(RestartPolicy::Always, &["app"])),
    );
    stage.shut();
    stage.told("a", "app", Told::Marked);
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.exit("a", 1);
    stage.probed(ready());
    stage.said();
    let gone = Told::LetGo {
        held: None,
        at_limit: false,
        ran: false,
    };
    stage.told("a", "app", gone);
    assert!(stage.said()[0].starts_with("start-missed"));
}

#[test]
fn run_of_the_sandbox_before_was_not_missed_in_this_one() {
    let mut stage = held(
        Mode::Enforce,
        asked_for(pod(RestartPolicy::Always, &["app"])),
    );
    stage.start("app", "a");
    stage.exit("a", 1);
    stage.shut();
    stage.start(PROXY, "i");
    stage.said();
    stage.probed(ready());
    assert_eq!(stage.said(), ["open all", "starts []"]);
}
