//! Containers that start: when the runtime has written their state.

use super::*;

/// The proxy is restarted. Its new run has not executed its program.
fn starting(mode: Mode, run: &str) -> Stage {
    let mut stage = stage(mode, requested());
    stage.exit("i", 0);
    let name = Some(PROXY.to_owned());
    let started = ContainerChange::Started { name };
    stage.send(Event::container(key(run), started));
    stage.take();
    stage
}

/// The runtime writes its state of a container after the first process of the container exists.
#[test]
fn armed_when_the_runtime_has_created_the_container() {
    let mut stage = starting(Mode::Enforce, "j");
    stage.send(Event::container(key("j"), ContainerChange::Executed));
    assert_eq!(stage.take(), [ARMED]);
    // The agent did not observe the execution.
    let mut stage = starting(Mode::Enforce, "k");
    stage.pass(seconds(4));
    assert_eq!(stage.take(), [""; 0]);
    stage.pass(seconds(2));
    assert_eq!(stage.take(), [ARMED]);
}

/// A hook of the runtime takes longer than the agent waits for the execution, and the state is written after it.
#[test]
fn state_that_is_missing_before_the_execution_is_awaited() {
    let observed = "stops [istio-proxy observed, app observed]";
    let unsupported = "istio-proxy linger-unsupported";
    for (mode, wanted, withdrawn, reports) in [
        (Mode::Enforce, ARMED, "stops []", vec![unsupported]),
        (Mode::Observe, observed, "stops [app observed]", vec![]),
    ] {
        let mut stage = starting(mode, "j");
        let missing = || Event::Stop {
            key: key("j"),
            name: PROXY.to_owned(),
            result: StopResult::Unsupported("no state".to_owned()),
        };
        stage.pass(seconds(5));
        assert_eq!(stage.take(), [wanted]);
        stage.send(missing());
        stage.pass(seconds(20));
        assert_eq!(stage.take(), [withdrawn]);
        stage.send(Event::container(key("j"), ContainerChange::Executed));
        assert_eq!(stage.take(), [wanted]);
        // Now the layout is unknown.
        stage.send(missing());
        stage.pass(seconds(20));
        let reported = stage.take();
        assert_eq!(&reported[..reports.len()], reports);
    }
}
