//! Tables of an earlier agent whose timeouts have all passed.

use super::{
    super::hold::*,
    found::{find, pause},
};

/// The chains of a table whose ports the kernel has released.
fn expired() -> Option<Remains> {
    Some(Remains {
        ports: Vec::new(),
        count_only: false,
        queries: false,
    })
}

const EXPIRED: &str = "hold-adopted: an earlier agent held connections; its deadline passed before this agent started, and they are released";

const DEADLINE: &str = "hold-released: the sidecar is not ready at the deadline";

/// The image of its app was pulled while no agent ran.
#[test]
fn pod_whose_hold_expired_before_its_app_started_is_held_anew() {
    for inits in [&[][..], &["istio-init"]] {
        let mut spec = istio();
        spec.init_containers = inits.iter().map(|name| (*name).to_owned()).collect();
        let start = ("usher.dev/hold".to_owned(), "start".to_owned());
        spec.annotations.extend([start]);
        let mut stage = held(Mode::Enforce, spec);
        find(&mut stage, &pause(), expired());
        assert_eq!(stage.take_hold(), [EXPIRED, "release all"]);
        stage.released(0);
        // Its init containers ended before the earlier agent held it. Nothing was refused at the deadline.
        assert_eq!(stage.take_hold(), [ARM, "starts [app 30s]"], "{inits:?}");
    }
}

#[test]
fn pod_whose_hold_expired_after_its_app_started_is_not_held_again() {
    for deadline in ["open", "closed"] {
        let mut spec = istio();
        let deadline = ("usher.dev/on-deadline".to_owned(), deadline.to_owned());
        spec.annotations.extend([deadline]);
        let mut stage = held(Mode::Enforce, spec);
        stage.start("app", "a");
        assert_eq!(stage.take_hold(), ["look"]);
        find(&mut stage, &pause(), expired());
        assert_eq!(stage.take_hold(), [EXPIRED, "release all"]);
        stage.released(0);
        let output = stage.take_hold();
        assert!(output[0].starts_with(DEADLINE), "{output:?}");
        assert_eq!(output[1..], ["forget"]);
    }
}

#[test]
fn counting_that_expired_begins_anew_unless_an_app_has_started() {
    let counted = Remains {
        count_only: true,
        ..expired().unwrap()
    };
    for has_started in [false, true] {
        let mut stage = held(Mode::Observe, istio());
        if has_started {
            stage.start("app", "a");
        }
        stage.take_hold();
        find(&mut stage, &pause(), Some(counted.clone()));
        assert_eq!(stage.take_hold(), ["release all"]);
        stage.released(0);
        let output = stage.take_hold();
        match has_started {
            false => assert!(output[0].starts_with("arm 15001 30s"), "{output:?}"),
            true => assert_eq!(output.last().unwrap(), "forget"),
        }
    }
}

/// No init container is held, whatever the earlier agent held.
#[test]
fn pod_whose_init_containers_run_again_waits_for_them() {
    let mut spec = istio();
    spec.init_containers = vec!["istio-init".to_owned(), "migrate".to_owned()];
    let mut stage = held(Mode::Enforce, spec);
    stage.start("istio-init", "k");
    find(&mut stage, &pause(), expired());
    stage.released(0);
    stage.take_hold();
    stage.exit("k", 0);
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.start("migrate", "l");
    stage.exit("l", 0);
    assert_eq!(stage.take_hold(), [ARM]);
}

/// Whether an app was refused at the deadline is known once the pod is.
#[test]
fn expired_hold_of_a_pod_that_is_not_listed_yet_is_released_later() {
    let mut stage = bare(Mode::Enforce, istio());
    stage.send(Event::PodAppeared(uid()));
    stage.start("app", "a");
    assert_eq!(stage.take_hold(), ["look"]);
    find(&mut stage, &pause(), expired());
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.list();
    assert_eq!(stage.take_hold(), [EXPIRED, "release all"]);
    stage.released(0);
    let output = stage.take_hold();
    assert!(output[0].starts_with(DEADLINE), "{output:?}");
}
