use std::{fs, sync::Arc};

use usher_sys::process::child::Launch;

use super::*;
use crate::{
    args::HOLDER,
    kubernetes::events::EventPublisher,
    telemetry::{metrics::Metrics, reporter::Reporter},
};

/// A holder that cannot be started.
fn absent() -> HolderProcess {
    let metrics = Arc::new(Metrics::new());
    let (events, _publisher) = EventPublisher::new("node-1", Arc::clone(&metrics));
    let launch = Launch {
        role: HOLDER,
        // No argument of a program has this byte.
        flags: vec!["\0".to_owned()],
        variables: Vec::new(),
    };
    HolderProcess::new(launch, Reporter::new(metrics, events))
}

fn pod() -> PodUid {
    PodUid::parse(&"1".repeat(32)).unwrap()
}

fn stop(digit: &str) -> Stop {
    Stop {
        id: ContainerId::parse(&digit.repeat(64)).unwrap(),
        container: "istio-proxy".to_owned(),
        is_app: false,
        limit: Duration::from_secs(23),
        is_observed: false,
    }
}

/// A runtime with the state of these containers.
fn runtime(stops: &[Stop]) -> (tempfile::TempDir, Stops) {
    let dir = tempfile::tempdir().unwrap();
    for stop in stops {
        let state = dir.path().join(stop.id.as_str());
        fs::create_dir(&state).unwrap();
        fs::write(state.join("state.json"), "{}").unwrap();
    }
    let stops = Stops::new(vec![dir.path().to_owned()]);
    (dir, stops)
}

fn unsent(stops: &Stops) -> Vec<&ContainerId> {
    let unsent = stops.armed.iter();
    unsent
        .filter(|(_id, armed)| armed.stage == Stage::Unsent)
        .map(|(id, _armed)| id)
        .collect()
}

/// The next holder would hold a signal that nothing releases again.
#[tokio::test]
async fn next_holder_does_not_arm_what_is_no_longer_wanted() {
    let (one, two) = (stop("a"), stop("b"));
    let (_dir, mut stops) = runtime(&[one.clone(), two.clone()]);
    let mut holder = absent();
    let both = vec![one.clone(), two];
    assert_eq!(stops.set(&mut holder, &pod(), both), []);
    assert_eq!(unsent(&stops).len(), 2);
    // While no holder runs.
    assert_eq!(stops.set(&mut holder, &pod(), vec![one.clone()]), []);
    assert_eq!(unsent(&stops), [&one.id]);
    let other = PodUid::parse(&"2".repeat(32)).unwrap();
    stops.set(&mut holder, &other, Vec::new());
    assert_eq!(unsent(&stops), [&one.id], "of another pod");
    stops.set(&mut holder, &pod(), Vec::new());
    assert!(stops.armed.is_empty());
}

/// The mode of the Node changes from enforce to observe.
#[tokio::test]
async fn observed_container_is_no_longer_armed() {
    let one = stop("a");
    let (_dir, mut stops) = runtime(std::slice::from_ref(&one));
    let mut holder = absent();
    stops.set(&mut holder, &pod(), vec![one.clone()]);
    assert_eq!(unsent(&stops), [&one.id]);
    let observed = Stop {
        is_observed: true,
        ..one
    };
    stops.set(&mut holder, &pod(), vec![observed]);
    assert!(stops.armed.is_empty());
}

/// The holder ended before the engine withdrew the container: its release was ordered, or is not needed.
#[tokio::test]
async fn released_container_is_forgotten_with_its_holder() {
    let one = stop("a");
    let (_dir, mut stops) = runtime(std::slice::from_ref(&one));
    let mut holder = absent();
    for stage in [Stage::Armed, Stage::Released] {
        stops.set(&mut holder, &pod(), vec![one.clone()]);
        stops.armed.get_mut(&one.id).unwrap().stage = stage;
        let lost = stops.holder_ended();
        assert!(matches!(
            &lost[..],
            [Event::Stop {
                result: StopResult::Lost,
                ..
            }]
        ));
        stops.set(&mut holder, &pod(), Vec::new());
        assert!(stops.armed.is_empty(), "{stage:?}");
    }
}
