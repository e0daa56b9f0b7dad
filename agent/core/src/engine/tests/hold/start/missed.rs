//! Starts that came before they could be held.

use super::super::start::*;
use crate::engine::tests::hold::found::{find, remains};
use crate::pod::container_change::ContainerChange;

#[test]
fn start_that_came_too_soon_is_said_when_the_doors_open() {
    let mut stage = held(Mode::Enforce, asked_for(istio()));
    stage.shut();
    // Nobody saw its root.
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.said();
    stage.probed(ready());
    let missed = "start-missed: the app started before its start could be held; its connections are held from hold-armed on";
    assert_eq!(stage.said(), ["open all", missed, "starts []"]);

    let mut stage = held(Mode::Enforce, asked_for(istio()));
    stage.shut();
    stage.told("a", "app", StartResult::Marked);
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.probed(ready());
    stage.said();
    let ran = |ran| StartResult::Released {
        held: None,
        at_limit: false,
        ran,
    };
    stage.told("a", "app", ran(true));
    assert_eq!(stage.said(), [missed]);
    // It is said once.
    stage.told("a", "app", ran(true));
    assert_eq!(stage.said(), [""; 0]);
    // Nor are those that had not run yet, whether they have a process or not.
    stage.told("c", "app", StartResult::Marked);
    stage.start("app", "c");
    stage.told("c", "app", ran(false));
    assert_eq!(stage.said(), [""; 0]);
    stage.told("b", "app", StartResult::Marked);
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
    let gone = || StartResult::Released {
        held: None,
        at_limit: false,
        ran: false,
    };
    stage.told("a", "app", StartResult::Marked);
    stage.start("app", "a");
    stage.exit("a", 1);
    assert_eq!(stage.said(), ["let go"]);
    stage.told("a", "app", gone());
    let missed = "start-missed: the app started before its start could be held; its connections are held from hold-armed on";
    assert_eq!(stage.said(), [missed]);
    // The runtime gave one up before it had a process.
    stage.told("b", "app", StartResult::Marked);
    stage.told("b", "app", gone());
    assert_eq!(stage.said(), [""; 0]);
}

#[test]
fn app_that_ran_before_anybody_was_told_of_its_pod() {
    let mut stage = held(Mode::Enforce, asked_for(istio()));
    let pause = ContainerKey {
        pod: uid(),
        id: ContainerId::parse(sandbox().as_str()).unwrap(),
    };
    stage.send(Event::container(pause, ContainerChange::Appeared));
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.said();
    stage.shut();
    stage.probed(ready());
    let missed = "start-missed: the app started before its start could be held; its connections are held from hold-armed on";
    assert_eq!(stage.said(), ["open all", missed, "starts []"]);
}

#[test]
fn app_that_ended_unheld_just_before_the_doors_opened() {
    let mut stage = held(
        Mode::Enforce,
        asked_for(pod(RestartPolicy::Always, &["app"])),
    );
    stage.shut();
    stage.told("a", "app", StartResult::Marked);
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.exit("a", 1);
    stage.probed(ready());
    stage.said();
    let gone = StartResult::Released {
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

#[test]
fn app_that_ran_before_this_agent_was_not_missed_by_it() {
    let mut stage = bare(Mode::Enforce, asked_for(istio()));
    stage.send(Event::PodAppeared(uid()));
    stage.start(PROXY, "i");
    stage.start("app", "a");
    find(&mut stage, "a", remains(seconds(12)));
    stage.list();
    let said = stage.said();
    assert!(said.contains(&"starts [app 30s]".to_owned()), "{said:?}");
    stage.pass(seconds(13));
    assert_eq!(stage.said(), ["open all", "starts []"]);
}
