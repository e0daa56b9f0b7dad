//! The deadlines of tables that an earlier agent installed.

use super::{
    super::hold::*,
    found::{find, pause, remains},
};
use crate::pod::container_change::ContainerChange;

/// The app was found more than a second before the kubelet's list.
#[test]
fn restart_of_the_agent_extends_no_counting() {
    let mut stage = bare(Mode::Observe, istio());
    stage.send(Event::PodAppeared(uid()));
    stage.start("app", "a");
    let counts = Remains {
        count_only: true,
        ..remains(seconds(12)).unwrap()
    };
    find(&mut stage, &pause(), Some(counts));
    stage.now = stage.now + seconds(2);
    stage.list();
    stage.take_hold();
    stage.pass(seconds(11));
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn adopted_hold_has_a_bounded_deadline() {
    let mut stage = bare(Mode::Enforce, istio());
    stage.send(Event::PodAppeared(uid()));
    stage.start("app", "a");
    find(&mut stage, "a", remains(seconds(86_400)));
    stage.list();
    stage.take_hold();
    stage.pass(seconds(601));
    assert_eq!(stage.take_hold(), ["release all"]);
}

/// While the API server does not return the Namespace.
#[test]
fn adopted_hold_without_a_view_ends_at_its_deadline() {
    let mut stage = bare(Mode::Enforce, istio());
    stage.namespace = None;
    stage.send(Event::PodAppeared(uid()));
    stage.start("app", "a");
    assert_eq!(stage.take_hold(), ["look"]);
    find(&mut stage, "a", remains(seconds(12)));
    stage.pass(seconds(11));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn deadline_of_an_adopted_hold_counts_from_the_first_app_start() {
    let mut stage = held(Mode::Enforce, istio());
    stage.start(PROXY, "i");
    find(&mut stage, "i", remains(seconds(12)));
    stage.take_hold();
    // A third of 12 seconds, then a third of 30.
    stage.pass(seconds(13));
    assert_eq!(stage.take_hold(), ["renew 15001 30s"]);
    stage.pass(seconds(2));
    assert_eq!(stage.take_hold(), ["renew 15001 30s"]);
    stage.pass(seconds(7));
    stage.start("app", "a");
    assert_eq!(stage.take_hold(), ["renew 15001 30s"]);
    stage.pass(seconds(29));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take_hold(), ["release all"]);
}

/// Whether it started before this agent is not known.
#[test]
fn app_that_an_agent_finds_late_does_not_extend_the_deadline_of_an_adopted_hold() {
    let mut stage = held(Mode::Enforce, istio());
    stage.start(PROXY, "i");
    find(&mut stage, "i", remains(seconds(12)));
    stage.take_hold();
    stage.pass(seconds(3));
    stage.start("app", "a");
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.pass(seconds(9));
    assert_eq!(stage.take_hold(), ["release all"]);
}

/// The agent did not run at the deadline of a hold that it had adopted through the proxy.
#[test]
fn pause_process_of_an_adopted_hold_is_no_app() {
    let mut stage = held(Mode::Enforce, istio());
    stage.send(Event::container(key("p"), ContainerChange::Appeared));
    stage.start(PROXY, "i");
    find(&mut stage, "i", remains(seconds(12)));
    stage.take_hold();
    stage.now = stage.now + seconds(31);
    stage.send(Event::Timer);
    stage.pass(Duration::from_millis(100));
    assert_eq!(stage.take_hold(), ["renew 15001 30s"]);
}
