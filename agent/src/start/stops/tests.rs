use std::{
    env, fs, io,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use usher_core::start::LONGEST_MESSAGE;
use usher_sys::{
    process::child::Launch,
    seqpacket::{Plain, Received},
};

use super::*;
use crate::{
    args::HOLDER,
    kubernetes::events::EventPublisher,
    telemetry::{metrics::Metrics, reporter::Reporter},
};

/// Set in the environment of a test that is a holder: the file for the orders that it receives.
const ORDERS: &str = "USHER_TEST_ORDERS";

fn launched(launch: Launch) -> HolderProcess {
    let metrics = Arc::new(Metrics::new());
    let (events, _publisher) = EventPublisher::new("node-1", Arc::clone(&metrics));
    HolderProcess::new(launch, Reporter::new(metrics, events))
}

/// A holder that cannot be started.
fn absent() -> HolderProcess {
    launched(Launch {
        role: HOLDER,
        // No argument of a program has this byte.
        flags: vec!["\0".to_owned()],
        variables: Vec::new(),
    })
}

/// This test in another process, which records its orders.
fn recording(test: &'static str, file: &Path) -> HolderProcess {
    launched(Launch {
        role: test,
        flags: vec!["--exact".to_owned()],
        variables: vec![(ORDERS, file.to_str().unwrap().to_owned())],
    })
}

/// Whether this process is the holder of a test. Its file exists when the agent has closed the socket.
fn records_as_holder() -> bool {
    let Some(file) = env::var_os(ORDERS) else {
        return false;
    };
    let socket = Plain::from(io::stdin().as_fd().try_clone_to_owned().unwrap());
    let mut orders = String::new();
    let mut buffer = [0; LONGEST_MESSAGE];
    loop {
        match socket.receive(&mut buffer).unwrap() {
            Received::Message(length, _directories) => {
                orders += match Order::decode(&buffer[..length]).unwrap() {
                    Order::ArmStop { .. } => "arm\n",
                    Order::ReleaseStop { .. } => "release\n",
                    _ => "other\n",
                }
            }
            Received::Nothing => {
                let mut readable = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
                poll(&mut readable, PollTimeout::NONE).unwrap();
            }
            Received::Closed => break,
        }
    }
    let whole = Path::new(&file).with_extension("whole");
    fs::write(&whole, orders).unwrap();
    fs::rename(whole, file).unwrap();
    true
}

/// The orders that a holder received until now.
fn orders(holder: HolderProcess, file: &Path) -> Vec<String> {
    drop(holder);
    let begin = Instant::now();
    while !file.exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "no orders");
        thread::sleep(Duration::from_millis(10));
    }
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(str::to_owned).collect()
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
        setting: None,
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

/// The holder reads the order with another limit after it has forgotten the container. Nothing else would release what it
/// holds then.
#[tokio::test]
async fn order_that_the_holder_reads_after_its_end_is_withdrawn() {
    if records_as_holder() {
        return;
    }
    let test = "start::stops::tests::order_that_the_holder_reads_after_its_end_is_withdrawn";
    let one = stop("a");
    let container = one.id.clone();
    let released = News::StopReleased {
        container: container.clone(),
        held: Some(one.limit),
        at_limit: true,
    };
    let reason = "a test".to_owned();
    let unable = News::StopUnable { container, reason };
    for news in [Some(released), Some(unable), None] {
        let (dir, mut stops) = runtime(std::slice::from_ref(&one));
        let file = dir.path().join("orders");
        let mut holder = recording(test, &file);
        stops.set(&mut holder, &pod(), vec![one.clone()]);
        let longer = Stop {
            limit: Duration::from_secs(53),
            ..one.clone()
        };
        let expected = if let Some(news) = news {
            stops.set(&mut holder, &pod(), vec![longer]);
            stops.reported(&mut holder, news);
            vec!["arm", "arm", "release"]
        } else {
            // The runtime has removed its state.
            fs::remove_dir_all(dir.path().join(one.id.as_str())).unwrap();
            stops.set(&mut holder, &pod(), vec![longer]);
            vec!["arm", "release"]
        };
        assert!(stops.armed.is_empty());
        assert_eq!(orders(holder, &file), expected);
    }
}
