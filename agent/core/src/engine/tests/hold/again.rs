//! Sidecars that restart.

use super::{super::hold::*, found::find};
use crate::pod::container_change::ContainerChange;

/// A pod that is held again after each restart of its proxy.
pub(super) fn held_again() -> Pod {
    let mut spec = pod(RestartPolicy::Always, &["app"]);
    let again = [("usher.dev/hold-again".to_owned(), "true".to_owned())];
    spec.annotations = again.into();
    spec
}

#[test]
fn restarted_sidecar_keeps_the_hold() {
    let mut stage = held(Mode::Enforce, pod(RestartPolicy::OnFailure, &["app"]));
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.take_hold();
    stage.exit("i", 1);
    stage.start(PROXY, "j");
    stage.pass(seconds(5));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn sidecar_killed_before_its_start_keeps_the_hold() {
    let mut stage = held(Mode::Enforce, istio());
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.take_hold();
    stage.send(Event::container(key("i"), ContainerChange::NotStarted));
    stage.send(Event::container(key("i"), ContainerChange::Gone));
    stage.pass(seconds(5));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.start(PROXY, "j");
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release all"]);
}

#[test]
fn restarted_proxy_is_awaited_when_configured() {
    let mut stage = held(Mode::Enforce, held_again());
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.probed(ready());
    stage.released(0);
    // The network namespace stays open for the next hold.
    assert!(!stage.take_hold().contains(&"forget".to_owned()));
    stage.exit("i", 1);
    assert_eq!(stage.take_hold(), [ARM]);
    stage.armed();
    stage.take_hold();
    stage.start(PROXY, "j");
    assert_eq!(stage.take_hold(), [WATCH]);
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release all"]);
}

/// Its apps had started before usher, which is no reason against the next hold.
#[test]
fn restarted_proxy_of_a_pod_that_was_found_is_awaited() {
    let mut stage = held(Mode::Enforce, held_again());
    stage.start("app", "a");
    find(&mut stage, "a", None);
    let late = "not-held: the pod's apps had started before their connections could be held";
    assert_eq!(stage.take_hold(), ["look", late]);
    stage.start(PROXY, "i");
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.exit("i", 1);
    assert_eq!(stage.take_hold(), [ARM]);
}

#[test]
fn restarted_proxy_is_not_awaited_in_observe_mode() {
    let mut stage = held(Mode::Observe, held_again());
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.probed(ready());
    stage.released(0);
    assert!(stage.take_hold().contains(&"forget".to_owned()));
    stage.exit("i", 1);
    assert_eq!(stage.take_hold(), [""; 0]);
}

#[test]
fn proxy_that_was_not_running_at_the_deadline_is_not_awaited_again() {
    let mut stage = held(Mode::Enforce, held_again());
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.exit("i", 1);
    stage.take_hold();
    stage.pass(seconds(31));
    assert_eq!(stage.take_hold(), ["release all"]);
    stage.released(1);
    assert!(!stage.take_hold().contains(&ARM.to_owned()));
    stage.start(PROXY, "j");
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.exit("j", 1);
    assert_eq!(stage.take_hold(), [ARM]);
}
