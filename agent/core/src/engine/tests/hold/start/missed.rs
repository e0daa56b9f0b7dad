//! Apps that started before their start could be held.

use super::super::start::*;
use crate::engine::tests::hold::again::held_again;
use crate::engine::tests::hold::found::{find, remains};
use crate::pod::container_change::ContainerChange;

#[test]
fn a_missed_start_is_reported_at_the_release() {
    let mut stage = held(Mode::Enforce, requesting_held_start(istio()));
    stage.hold();
    // The agent has not observed the container's root.
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.take_hold();
    stage.probed(ready());
    let missed = "start-missed: the app started before its start could be held; its connections are held from hold-armed on";
    assert_eq!(stage.take_hold(), ["release all", missed, "starts []"]);
    let ran = |ran| StartResult::Released {
        held: None,
        at_limit: false,
        ran,
    };
    // It is not reported again if the holder was slow, and marked the root only now.
    stage.reported("a", "app", StartResult::Marked);
    stage.reported("a", "app", ran(true));
    assert_eq!(stage.take_hold(), [""; 0]);

    let mut stage = held(Mode::Enforce, requesting_held_start(istio()));
    stage.hold();
    stage.reported("a", "app", StartResult::Marked);
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.probed(ready());
    stage.take_hold();
    stage.reported("a", "app", ran(true));
    assert_eq!(stage.take_hold(), [missed]);
    // The missed start is reported once.
    stage.reported("a", "app", ran(true));
    assert_eq!(stage.take_hold(), [""; 0]);
    // Starts that have not run yet are not reported either, with or without a process.
    stage.reported("c", "app", StartResult::Marked);
    stage.start("app", "c");
    stage.reported("c", "app", ran(false));
    assert_eq!(stage.take_hold(), [""; 0]);
    stage.reported("b", "app", StartResult::Marked);
    stage.reported("b", "app", ran(false));
    assert_eq!(stage.take_hold(), [""; 0]);
}

#[test]
fn a_missed_start_is_reported_at_the_exit() {
    let mut stage = held(
        Mode::Enforce,
        requesting_held_start(pod(RestartPolicy::OnFailure, &["app"])),
    );
    stage.hold();
    let gone = || StartResult::Released {
        held: None,
        at_limit: false,
        ran: false,
    };
    stage.reported("a", "app", StartResult::Marked);
    stage.start("app", "a");
    stage.exit("a", 1);
    assert_eq!(stage.take_hold(), ["release start"]);
    stage.reported("a", "app", gone());
    let missed = "start-missed: the app started before its start could be held; its connections are held from hold-armed on";
    assert_eq!(stage.take_hold(), [missed]);
    // The runtime removed a container before it had a process.
    stage.reported("b", "app", StartResult::Marked);
    stage.reported("b", "app", gone());
    assert_eq!(stage.take_hold(), [""; 0]);
}

/// Its connections are not held either.
#[test]
fn an_app_that_ran_before_its_pod_was_announced_was_not_missed() {
    let mut stage = held(Mode::Enforce, requesting_held_start(istio()));
    let pause = ContainerKey {
        pod: uid(),
        id: ContainerId::parse(sandbox().as_str()).unwrap(),
    };
    stage.send(Event::container(pause, ContainerChange::Appeared));
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.take_hold();
    stage.announce();
    let not_held = "the pod's apps had started before their connections could be held";
    let expected = [
        format!("answer NotHeld: {not_held}"),
        format!("not-held: {not_held}"),
        "forget".to_owned(),
    ];
    assert_eq!(stage.take_hold(), expected);
}

/// The table comes late. A start that is held is one that has not run.
#[test]
fn app_whose_start_is_held_before_its_table_is_installed() {
    for is_marked in [true, false] {
        let mut stage = held(Mode::Enforce, requesting_held_start(istio()));
        stage.announce();
        if is_marked {
            stage.reported("a", "app", StartResult::Marked);
        }
        stage.start("app", "a");
        stage.take_hold();
        stage.armed();
        let output = stage.take_hold();
        assert_eq!(output[0] == "answer Held", is_marked, "{output:?}");
        if !is_marked {
            assert_eq!(output[2..], ["starts []", "release all"]);
        }
    }
}

#[test]
fn app_ended_unheld_just_before_the_release() {
    let mut stage = held(
        Mode::Enforce,
        requesting_held_start(pod(RestartPolicy::Always, &["app"])),
    );
    stage.hold();
    stage.reported("a", "app", StartResult::Marked);
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.exit("a", 1);
    stage.probed(ready());
    stage.take_hold();
    let gone = StartResult::Released {
        held: None,
        at_limit: false,
        ran: false,
    };
    stage.reported("a", "app", gone);
    assert!(stage.take_hold()[0].starts_with("start-missed"));
}

#[test]
fn run_of_the_sandbox_before_was_not_missed_in_this_one() {
    let mut stage = held(
        Mode::Enforce,
        requesting_held_start(pod(RestartPolicy::Always, &["app"])),
    );
    stage.start("app", "a");
    stage.exit("a", 1);
    stage.hold();
    stage.start(PROXY, "i");
    stage.take_hold();
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release all", "starts []"]);
}

#[test]
fn app_that_ran_before_this_agent_was_not_missed_by_it() {
    let mut stage = bare(Mode::Enforce, requesting_held_start(istio()));
    stage.send(Event::PodAppeared(uid()));
    stage.start(PROXY, "i");
    stage.start("app", "a");
    find(&mut stage, "a", remains(seconds(12)));
    stage.list();
    let output = stage.take_hold();
    assert!(
        output.contains(&"starts [app 30s]".to_owned()),
        "{output:?}"
    );
    stage.pass(seconds(13));
    assert_eq!(stage.take_hold(), ["release all", "starts []"]);
}

/// A restarted app is not held while its proxy is ready.
#[test]
fn restart_before_another_hold_was_not_missed() {
    let mut stage = held(Mode::Enforce, requesting_held_start(held_again()));
    stage.start_held();
    stage.start(PROXY, "i");
    stage.probed(ready());
    stage.reported("a", "app", released(1234));
    stage.released(0);
    stage.exit("a", 1);
    stage.start("app", "b");
    stage.take_hold();
    stage.exit("i", 1);
    assert_eq!(stage.take_hold(), [ARM, "starts [app 30s]"]);
    stage.armed();
    stage.start(PROXY, "j");
    stage.take_hold();
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release all", "starts []"]);
}

/// The proxy was ready before the app started.
#[test]
fn start_after_the_release_was_not_missed_by_another_hold() {
    let mut stage = held(Mode::Enforce, requesting_held_start(held_again()));
    stage.hold();
    stage.start(PROXY, "i");
    stage.probed(ready());
    stage.released(0);
    stage.start("app", "b");
    stage.exit("i", 1);
    stage.armed();
    stage.start(PROXY, "j");
    stage.take_hold();
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release all", "starts []"]);
    stage.released(0);
    // The restart that is held is missed.
    stage.exit("j", 1);
    stage.armed();
    stage.exit("b", 1);
    stage.start("app", "c");
    stage.start(PROXY, "k");
    stage.take_hold();
    stage.probed(ready());
    let missed = "start-missed: the app started before its start could be held; its connections are held from hold-armed on";
    assert_eq!(stage.take_hold(), ["release all", missed, "starts []"]);
}

/// It was reported as not held.
#[test]
fn start_during_a_pause_was_not_missed() {
    for before_the_announcement in [true, false] {
        let mut stage = held(Mode::Enforce, requesting_held_start(istio()));
        let pause = Event::StartSupport(Err("fanotify: denied".to_owned()));
        if before_the_announcement {
            stage.send(pause);
            stage.hold();
        } else {
            stage.hold();
            stage.send(pause);
        }
        stage.start("app", "a");
        stage.send(Event::StartSupport(Ok(())));
        stage.start(PROXY, "i");
        stage.take_hold();
        stage.probed(ready());
        assert_eq!(stage.take_hold(), ["release all", "starts []"]);
    }
}

/// The ports are released after the end of a run whose start was released before.
#[test]
fn a_start_is_reported_once() {
    let mut stage = held(
        Mode::Enforce,
        requesting_held_start(pod(RestartPolicy::OnFailure, &["app"])),
    );
    stage.hold();
    stage.reported("a", "app", StartResult::Marked);
    stage.start("app", "a");
    stage.reported("a", "app", released(10_000));
    stage.exit("a", 1);
    stage.start(PROXY, "i");
    stage.take_hold();
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release all", "starts []"]);
}
