//! Starts that are held, and starts that are not.

mod end;
mod missed;

use super::super::hold::*;
use crate::{
    base::id::{ContainerId, ContainerKey},
    pod::spec::{KubeletProbe, ProbeKind},
    start::StartResult,
};

fn requesting_held_start(mut spec: Pod) -> Pod {
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
    fn reported(&mut self, run: &str, name: &str, reported: StartResult) {
        let (key, name) = (key(run), name.to_owned());
        self.send(Event::Start {
            key,
            name,
            result: reported,
        });
    }

    /// Announces and arms the pod; the start of its app is marked and held.
    fn start_held(&mut self) {
        self.hold();
        self.reported("a", "app", StartResult::Marked);
        self.start("app", "a");
        self.reported("a", "app", StartResult::Held);
        self.take_hold();
    }
}

fn released(millis: u64) -> StartResult {
    StartResult::Released {
        held: Some(Duration::from_millis(millis)),
        at_limit: false,
        ran: false,
    }
}

#[test]
fn start_waits_from_the_announcement_until_the_sidecar_is_ready() {
    let mut stage = held(Mode::Enforce, requesting_held_start(istio()));
    stage.announce();
    assert_eq!(stage.take_hold(), [ARM, "starts [app 30s]"]);
    stage.armed();
    let armed = format!("{ARMED}; so are the starts of app");
    assert_eq!(stage.take_hold()[1], armed);
    stage.reported("a", "app", StartResult::Marked);
    stage.start("app", "a");
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.reported("a", "app", StartResult::Held);
    let waits =
        "start-held: the app was not executed yet and waits for the sidecar, for at most 30s";
    assert_eq!(stage.take_hold(), [waits]);
    assert_eq!(stage.engine.census().held_starts, 1);
    stage.start(PROXY, "i");
    assert_eq!(stage.take_hold(), [WATCH]);
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release all", "starts []"]);
    stage.reported("a", "app", released(1234));
    let went = "start-released: the sidecar is ready; its start was held for 1234 ms";
    assert_eq!(stage.take_hold(), [went]);
    assert_eq!(stage.engine.census().held_starts, 0);
    stage.released(0);
    stage.take_hold();
    // The app restarts while the proxy is ready.
    stage.exit("a", 1);
    stage.start("app", "b");
    assert_eq!(stage.take_hold(), [""; 0]);
}

#[test]
fn start_is_held_only_when_requested_and_enforced() {
    let mut stage = held(Mode::Enforce, istio());
    stage.announce();
    assert_eq!(stage.take_hold(), [ARM]);
    let mut stage = held(Mode::Observe, requesting_held_start(istio()));
    stage.announce();
    assert_eq!(stage.take_hold(), [format!("{ARM}, count")]);
    stage.armed();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.pass(seconds(3));
    stage.probed(ready());
    stage.released(2);
    let output = stage.take_hold();
    let would = output.iter().find(|line| line.starts_with("would-hold"));
    let would = would.unwrap();
    assert!(
        would.ends_with("; the start of app would have been held for 3000 ms"),
        "{would}"
    );
}

#[test]
fn node_that_cannot_hold_starts_holds_connections_and_reports_it() {
    let mut stage = bare(Mode::Enforce, requesting_held_start(istio()));
    stage.send(Event::Kernel(Features {
        hold: Ok(()),
        dns: None,
        start: Err("fanotify: not permitted".to_owned()),
    }));
    stage.send(Event::PodAppeared(uid()));
    stage.list();
    stage.announce();
    let not = "start-not-held: its start is not held: the node cannot hold starts: fanotify: not permitted; its connections are held";
    assert_eq!(stage.take_hold(), [ARM, not]);
    stage.armed();
    assert_eq!(stage.take_hold()[1], ARMED);
    // The missing hold is reported once.
    stage.list();
    assert_eq!(stage.take_hold(), [""; 0]);
}

#[test]
fn only_apps_that_no_container_waits_for_are_held() {
    let mut spec = requesting_held_start(istio());
    for name in ["db", "other"] {
        spec.containers.push(container(name));
    }
    let ports = [("usher.dev/hold-ports".to_owned(), "db=5432".to_owned())];
    spec.annotations.extend(ports);
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    assert_eq!(stage.take_hold()[1], "starts [app 30s, other 30s]");
}

#[test]
fn hold_that_stays_closed_holds_no_start() {
    let mut spec = requesting_held_start(istio());
    let closed = [("usher.dev/on-deadline".to_owned(), "closed".to_owned())];
    spec.annotations.extend(closed);
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    // The holder releases the start after that time, even if a port is still held.
    assert_eq!(stage.take_hold()[1], "starts [app 30s]");
}

#[test]
fn start_hold_with_init_containers_precedes_the_connection_hold() {
    let mut spec = requesting_held_start(istio());
    spec.init_containers = vec!["setup".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.announce();
    assert_eq!(stage.take_hold()[1], "starts [app 30s]");
    stage.start("setup", "s");
    stage.exit("s", 0);
    assert_eq!(stage.take_hold(), [ARM]);
}
