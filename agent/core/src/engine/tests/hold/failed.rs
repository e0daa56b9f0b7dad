//! What the kernel refuses.

use super::super::hold::*;

#[test]
fn what_cannot_be_armed_says_so() {
    let mut stage = held(Mode::Enforce, istio());
    stage.announce();
    stage.said();
    stage.send(Event::Armed {
        sandbox: sandbox(),
        result: Err("EPERM".to_owned()),
    });
    let failed = "hold-failed: connections cannot be held and may be refused: EPERM";
    assert_eq!(stage.said(), ["answer Failed: EPERM", failed, "forget"]);
}

#[test]
fn gate_that_is_lost_is_said_to_be() {
    let mut stage = held(Mode::Enforce, istio());
    stage.shut();
    stage.opened(0);
    let said = stage.said();
    assert_eq!(
        said,
        [
            "hold-failed: the hold ended unexpectedly; connections are released and may be refused",
            "forget"
        ]
    );
}

#[test]
fn doors_that_do_not_open_are_said_to_stay_shut() {
    let mut stage = held(Mode::Enforce, istio());
    stage.shut();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.probed(ready());
    assert_eq!(stage.said(), [WATCH, "open all"]);
    stage.send(Event::Opened {
        sandbox: sandbox(),
        result: Err("EPERM".to_owned()),
    });
    let failed = "hold-failed: connections cannot be released, and wait until the kernel releases them at the deadline: EPERM";
    assert_eq!(stage.said(), [failed, "forget"]);
}
