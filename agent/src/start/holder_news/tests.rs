use std::{process, sync::Arc, time::Instant};

use usher_core::base::id::{ContainerKey, PodUid};
use usher_sys::{
    pods::{proc::ProcRoot, reads::Reads},
    process::child::Launch,
};

use super::*;
use crate::{
    args::HOLDER,
    kubernetes::events::EventPublisher,
    start::{Settings, reader::Found},
    telemetry::{metrics::Metrics, reporter::Reporter},
};

const APP: &str = "app";

fn container() -> ContainerId {
    ContainerId::parse(&"ab".repeat(32)).unwrap()
}

/// The starts of an agent without a holder, with one marked container. Its init process is this one, which executes a
/// program on its own mounts.
fn marked() -> Starts {
    let metrics = Arc::new(Metrics::new());
    let (events, _publisher) = EventPublisher::new("node-1", Arc::clone(&metrics));
    let settings = Settings {
        bundle_dir: "/nonexistent".into(),
        runtime_state_dirs: Vec::new(),
        proc: ProcRoot::new("/proc"),
        reads: Reads::new(|| {}, |_pod| {}),
        launch: Launch {
            role: HOLDER,
            flags: Vec::new(),
            variables: Vec::new(),
        },
    };
    let mut starts = Starts::new(settings, Reporter::new(metrics, events));
    let marked = Marked {
        key: ContainerKey {
            pod: PodUid::parse(&"1".repeat(32)).unwrap(),
            id: container(),
        },
        name: APP.to_owned(),
        init: Some(this()),
        is_held: false,
        has_started: false,
        released: None,
    };
    starts.marked.insert(container(), marked);
    starts
}

fn this() -> Pid {
    Pid(process::id().try_into().unwrap())
}

fn news(starts: &mut Starts, news: News) -> Vec<Event> {
    starts.holder_reported(HolderEvent::News(news))
}

fn released() -> News {
    News::Released {
        container: container(),
        held: None,
        at_limit: false,
    }
}

/// Whether the program ran before its release, as reported.
fn ran(events: &[Event]) -> Option<bool> {
    match events {
        [
            Event::Start {
                result: StartResult::Released { ran, .. },
                ..
            },
        ] => Some(*ran),
        _ => None,
    }
}

/// A busy node: the read at the release is late, or the process has exited since.
#[tokio::test]
async fn start_before_its_mark_is_missed() {
    for late in [Program::OfContainer(Instant::now()), Program::Exited] {
        let mut starts = marked();
        let marked = News::Marked {
            container: container(),
        };
        news(&mut starts, marked);
        starts.found(Found::Program(
            container(),
            Occasion::Marked(this()),
            Program::OfContainer(Instant::now()),
        ));
        news(&mut starts, released());
        let at_release = Occasion::Released { at_limit: false };
        let events = starts.found(Found::Program(container(), at_release, late));
        assert_eq!(ran(&events), Some(true), "{late:?}");
    }
}

/// A quick node: the read sees a program that was executed after the release.
#[tokio::test]
async fn start_after_its_release_is_not_missed() {
    let mut starts = marked();
    let marked = News::Marked {
        container: container(),
    };
    news(&mut starts, marked);
    starts.found(Found::Program(
        container(),
        Occasion::Marked(this()),
        Program::Runtime,
    ));
    assert_eq!(news(&mut starts, released()), []);
    let events = starts.next().await;
    assert_eq!(ran(&events), Some(false));
}

/// A busy node: the read at the mark happens after the release.
#[tokio::test]
async fn late_read_at_the_mark_is_no_evidence() {
    let mut starts = marked();
    starts.release(&container());
    let since = Program::OfContainer(Instant::now());
    starts.found(Found::Program(container(), Occasion::Marked(this()), since));
    news(&mut starts, released());
    let events = starts.next().await;
    assert_eq!(ran(&events), Some(false));
}

/// A program on a volume that was marked late executes another one, which the mark of the root holds.
#[tokio::test]
async fn start_before_the_marks_of_its_volumes_is_missed() {
    let mut starts = marked();
    let container = container();
    let held = News::Held {
        container: container.clone(),
    };
    news(&mut starts, held);
    let marked = News::VolumesMarked {
        container: container.clone(),
    };
    assert_eq!(news(&mut starts, marked), []);
    assert_eq!(starts.next().await, []);
    assert!(starts.marked[&container].released.is_some());
    let held_briefly = News::Released {
        container,
        held: Some(Duration::from_millis(3)),
        at_limit: false,
    };
    assert_eq!(news(&mut starts, held_briefly), []);
    let events = starts.next().await;
    assert_eq!(ran(&events), Some(true));
}
