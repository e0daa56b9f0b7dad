//! Clocks with another start: usher only uses durations.

use usher_tests::synthetic::{Agent, PodSpec};

use crate::{enforcing, finish_and_quit};

/// A machine that has been up for three years, from the view of its agent: a time namespace
/// ([time_namespaces(7)](https://man7.org/linux/man-pages/man7/time_namespaces.7.html), Linux 5.6).
#[test]
fn on_a_machine_that_has_been_up_for_years() {
    let Some(node) = enforcing() else { return };
    let seconds = 3 * 365 * 24 * 3600;
    let offsets = [
        "--time".to_owned(),
        "--fork".to_owned(),
        "--kill-child".to_owned(),
        format!("--monotonic={seconds}"),
        format!("--boottime={seconds}"),
    ];
    let agent = Agent::start_below(&node, "unshare", &offsets);
    let pod = node.run(&PodSpec::job("old-machine"));
    finish_and_quit(&agent, &pod);
    let late = node.run(&PodSpec::job("late"));
    finish_and_quit(&agent, &late);
}
