//! Stop signals that wait although nothing wants them to: the holder had an order that was outdated.

use super::*;

#[test]
fn signal_that_nothing_wants_is_released() {
    let mut stage = stage(Mode::Off, requested());
    stage.held_at(NOON);
    assert_eq!(stage.take(), [HELD, "stops []"]);
    let line = stage.stop_released(false);
    assert!(line.contains("changed"), "{line}");
    stage.take();
    stage.pass(seconds(100));
    assert_eq!(stage.take(), [""; 0], "ordered once");
}

/// Only the first stop signal waits.
#[test]
fn second_signal_of_a_released_sidecar_is_released() {
    let mut stage = Stage::lingering(requested());
    stage.pass(seconds(3));
    stage.stop_reported(StopResult::Lost);
    assert_eq!(stage.take(), [RELEASED, "stops []"]);
    stage.pass(seconds(1));
    stage.held_at(NOON + seconds(4));
    assert_eq!(stage.take(), [HELD, "stops []"]);
}
