//! The app of the hostile pod ends, and the agent requests its sidecar to quit.

use usher_tests::isolation::quit::{FOUR_PODS, ONE_POD};

use crate::affects_nothing_else;

#[test]
fn one_pod() {
    affects_nothing_else(&ONE_POD);
}

#[test]
fn four_pods_at_once() {
    affects_nothing_else(&FOUR_PODS);
}
