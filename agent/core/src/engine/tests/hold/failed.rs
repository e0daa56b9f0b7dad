//! Holds that the kernel rejects.

use super::super::hold::*;

#[test]
fn failed_arming_is_reported() {
    let mut stage = held(Mode::Enforce, istio());
    stage.announce();
    stage.take_hold();
    stage.send(Event::Armed {
        sandbox: sandbox(),
        result: Err("EPERM".to_owned()),
    });
    let failed = "hold-failed: connections cannot be held and may be refused: EPERM";
    assert_eq!(
        stage.take_hold(),
        ["answer Failed: EPERM", failed, "forget"]
    );
}

#[test]
fn a_lost_hold_is_reported() {
    let mut stage = held(Mode::Enforce, istio());
    stage.hold();
    stage.released(0);
    let output = stage.take_hold();
    assert_eq!(
        output,
        [
            "hold-failed: the hold ended unexpectedly; connections are released and may be refused",
            "forget"
        ]
    );
}

#[test]
fn ports_that_cannot_be_released_are_reported() {
    let mut stage = held(Mode::Enforce, istio());
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    stage.probed(ready());
    assert_eq!(stage.take_hold(), [WATCH, "release all"]);
    stage.send(Event::Released {
        sandbox: sandbox(),
        result: Err("EPERM".to_owned()),
    });
    let failed = "hold-failed: connections cannot be released, and wait until the kernel releases them at the deadline: EPERM";
    assert_eq!(stage.take_hold(), [failed, "forget"]);
}

#[test]
fn probe_that_could_not_be_made_is_repeated() {
    let mut spec = istio();
    let closed = ("usher.dev/on-deadline".to_owned(), "closed".to_owned());
    spec.annotations = [closed].into();
    let mut stage = held(Mode::Enforce, spec);
    stage.hold();
    stage.start("app", "a");
    stage.start(PROXY, "i");
    assert_eq!(stage.take_hold(), [WATCH]);
    let failed = |stage: &mut Stage| {
        stage.send(Event::ProbeFailed {
            sandbox: sandbox(),
            probe: ready(),
        });
    };
    let again = "watch [Answers { port: 15021, path: \"/healthz/ready\" }]";
    // Also in a long quarantine.
    for _ in 0..5 {
        failed(&mut stage);
        stage.pass(Duration::from_millis(1_900));
        assert_eq!(stage.take_hold(), [""; 0]);
        stage.pass(Duration::from_millis(200));
        assert_eq!(stage.take_hold(), [again]);
    }
    stage.probed(ready());
    assert_eq!(stage.take_hold(), ["release all"]);
    failed(&mut stage);
    stage.pass(seconds(10));
    assert_eq!(stage.take_hold(), [""; 0]);
}
