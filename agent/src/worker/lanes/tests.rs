use std::{sync::mpsc::TryRecvError, thread};

use tokio::sync::mpsc;

use super::*;

/// The time after which a call is reported.
const LIMIT: Duration = Duration::from_millis(20);
/// For calls that return immediately, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn netns(ino: u64) -> NetnsId {
    NetnsId { dev: 4, ino }
}

fn lanes() -> (Lanes, mpsc::Receiver<Reply>) {
    let (replies, receiver) = Replies::new();
    (Lanes::new(replies), receiver)
}

/// Spins until it receives a message or the sender is dropped. Returns whether it received one.
fn compute(wait: &std::sync::mpsc::Receiver<()>) -> bool {
    loop {
        match wait.try_recv() {
            Ok(()) => return true,
            Err(TryRecvError::Disconnected) => return false,
            Err(TryRecvError::Empty) => {}
        }
    }
}

/// The next reply other than a late change: on a busy machine a spinning thread gets little processor time.
async fn after_late_changes(replies: &mut mpsc::Receiver<Reply>) -> Reply {
    loop {
        let reply = replies.recv().await.unwrap();
        if !matches!(
            reply,
            Reply::Late {
                is_change: true,
                ..
            }
        ) {
            return reply;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stuck_call_is_reported_and_delays_its_namespace_only() {
    let (lanes, mut replies) = lanes();
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let (stuck, other) = (lanes.lane(netns(1)), lanes.lane(netns(2)));
    let first = {
        let (lanes, lane) = (lanes.clone(), Arc::clone(&stuck));
        tokio::spawn(async move {
            let calls = move || compute(&wait);
            lanes.run(&lane, Kind::Change, LIMIT, calls).await
        })
    };
    let troubled = Reply::Quarantined {
        netns: netns(1),
        reason: QuarantineReason::Stuck,
    };
    assert_eq!(after_late_changes(&mut replies).await, troubled);
    // The stuck call spins until the release below.
    let change = lanes.run(&other, Kind::Change, PATIENCE, || 7);
    assert_eq!(change.await, Some(7));
    // A second change in the stuck namespace gets no thread; a request still does.
    assert_eq!(lanes.run(&stuck, Kind::Change, LIMIT, || 7).await, None);
    let request = lanes.run(&stuck, Kind::Request, PATIENCE, || 7);
    assert_eq!(request.await, Some(7));
    release.send(()).unwrap();
    assert_eq!(first.await.unwrap(), Some(true));
    let recovered = Reply::Recovered { netns: netns(1) };
    assert_eq!(replies.recv().await.unwrap(), recovered);
    let change = lanes.run(&stuck, Kind::Change, PATIENCE, || 7);
    assert_eq!(change.await, Some(7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn stuck_calls_do_not_take_the_permits_of_the_node() {
    let (lanes, mut replies) = lanes();
    let mut stuck = Vec::new();
    for ino in 0..4 {
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let (lanes, lane) = (lanes.clone(), lanes.lane(netns(ino)));
        tokio::spawn(async move {
            lanes
                .run(&lane, Kind::Request, LIMIT, move || compute(&wait))
                .await
        });
        stuck.push(release);
    }
    for _ in 0..4 {
        replies.recv().await.unwrap();
    }
    assert_eq!(lanes.node.available_permits(), NODE);
    drop(stuck);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_late_request_fails_and_keeps_its_permit() {
    let (lanes, mut replies) = lanes();
    let lane = lanes.lane(netns(1));
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let waits = move || wait.recv().is_ok();
    assert_eq!(lanes.run(&lane, Kind::Request, LIMIT, waits).await, None);
    let late = Reply::Late {
        netns: netns(1),
        is_change: false,
    };
    assert_eq!(replies.recv().await.unwrap(), late);
    assert_eq!(lane.requests.available_permits(), REQUESTS - 1);
    assert_eq!(lanes.node.available_permits(), NODE);
    let request = lanes.run(&lane, Kind::Request, PATIENCE, || 7);
    assert_eq!(request.await, Some(7));
    release.send(()).unwrap();
    while lane.requests.available_permits() < REQUESTS {
        tokio::task::yield_now().await;
    }
    assert!(replies.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_late_change_returns_and_is_stuck_once_it_computes() {
    let (lanes, mut replies) = lanes();
    let (resume, waits) = std::sync::mpsc::channel::<()>();
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let change = {
        let (lanes, lane) = (lanes.clone(), lanes.lane(netns(1)));
        tokio::spawn(async move {
            let calls = move || waits.recv().is_ok() && compute(&wait);
            lanes.run(&lane, Kind::Change, LIMIT, calls).await
        })
    };
    let late = Reply::Late {
        netns: netns(1),
        is_change: true,
    };
    // The second report is for changes that arrived since the first.
    assert_eq!(replies.recv().await.unwrap(), late);
    assert_eq!(replies.recv().await.unwrap(), late);
    resume.send(()).unwrap();
    let stuck = Reply::Quarantined {
        netns: netns(1),
        reason: QuarantineReason::Stuck,
    };
    assert_eq!(after_late_changes(&mut replies).await, stuck);
    release.send(()).unwrap();
    assert_eq!(change.await.unwrap(), Some(true));
    let recovered = Reply::Recovered { netns: netns(1) };
    assert_eq!(replies.recv().await.unwrap(), recovered);
}

/// A job that returns after this time, and its thread's sample.
fn started(lanes: &Lanes, after: Duration, sample: Option<Sample>) -> StartedJob<u32> {
    let lane = lanes.lane(netns(1));
    let start = Arc::new(OnceLock::new());
    sample.map(|sample| start.set(sample));
    StartedJob {
        done: tokio::spawn(async move {
            tokio::time::sleep(after).await;
            7
        }),
        start,
        seen: Duration::ZERO,
        limit: PATIENCE,
        netns: lane.netns,
        _permit: lane.permits(Kind::Request).try_acquire_owned().unwrap(),
        lanes: lanes.clone(),
    }
}

/// The time does not pass by itself, so no thread computes meanwhile.
#[tokio::test(start_paused = true)]
async fn a_job_that_waits_for_a_processor_has_its_limit_again() {
    let (lanes, mut replies) = lanes();
    let margin = Duration::from_millis(1);
    let all = (PATIENCE + MARGIN) * (u32::from(THREAD_EXTENSIONS) + 1);
    // This thread runs, and computes for much less than the limit.
    for sample in [None, Some(Sample::current())] {
        let mut job = started(&lanes, all - margin, sample);
        assert_eq!(job.in_time().await, Ok(Some(7)));
        let mut job = started(&lanes, all + margin, sample);
        assert_eq!(job.in_time().await, Err(Lateness::Starved));
    }
    assert!(replies.try_recv().is_err());
}

/// The thread waits for a sidecar.
#[tokio::test(start_paused = true)]
async fn a_job_that_began_late_has_its_limit_from_then_on() {
    let (lanes, _replies) = lanes();
    let (report, started_thread) = std::sync::mpsc::channel();
    let (_end, wait) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || {
        report.send(Thread::current()).unwrap();
        wait.recv().ok();
    });
    let parked = started_thread.recv().unwrap();
    while parked.state() != Some('S') {
        thread::yield_now();
    }
    let margin = Duration::from_millis(1);
    let begin = Instant::now();
    for (at, expected) in [
        (begin + PATIENCE + MARGIN - margin, Ok(Some(7))),
        (begin, Err(Lateness::Waits)),
    ] {
        let sample = Sample {
            at,
            thread: parked,
            cpu_time: Duration::ZERO,
        };
        let mut job = started(&lanes, PATIENCE * 2, Some(sample));
        assert_eq!(job.in_time().await, expected);
    }
}

/// Those that wait for a stuck pod.
#[tokio::test(start_paused = true)]
async fn a_job_without_a_permit_does_not_have_its_limit_again() {
    let (lanes, _replies) = lanes();
    let lane = lanes.lane(netns(1));
    let _stuck = lane.permits(Kind::Change).try_acquire_owned().unwrap();
    let begin = Instant::now();
    assert_eq!(lanes.run(&lane, Kind::Change, LIMIT, || 7).await, None);
    assert!(begin.elapsed() < LIMIT * 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_that_panics_has_no_result() {
    let (lanes, _replies) = lanes();
    let lane = lanes.lane(netns(1));
    let panics = || -> u32 {
        thread::current()
            .name()
            .map_or(0, |_name| panic!("expected"))
    };
    assert_eq!(lanes.run(&lane, Kind::Change, LIMIT, panics).await, None);
}

#[test]
fn lanes_that_are_not_used_are_forgotten() {
    let (lanes, _replies) = lanes();
    let kept = lanes.lane(netns(0));
    for ino in 1..3000 {
        lanes.lane(netns(ino));
    }
    assert!(lanes.all.lock().unwrap().len() <= CACHED);
    assert!(Arc::ptr_eq(&kept, &lanes.lane(netns(0))));
}
