mod bounds;
mod namespaces;
mod property;

use std::collections::{BTreeMap, BTreeSet};

use super::super::queue::*;
use crate::kube_event::{Reason, Regarding};

fn at(ms: u64) -> Timestamp {
    Timestamp::new(Duration::from_millis(ms))
}

fn notice(pod: u32, reason: Reason, note: &str) -> Notice {
    Notice {
        regarding: Regarding::Pod {
            uid: format!("{pod:032x}"),
            namespace: "shop".to_owned(),
            name: format!("pod-{pod}"),
        },
        reason,
        container: None,
        note: note.to_owned(),
        at_us: 1_700_000_000_000_000,
    }
}

fn notice_in(namespace: &str, pod: u32, reason: Reason) -> Notice {
    let mut notice = notice(pod, reason, "a");
    if let Regarding::Pod { namespace: at, .. } = &mut notice.regarding {
        namespace.clone_into(at);
    }
    notice
}

fn queue() -> Queue {
    Queue::new("node-1".to_owned())
}

fn send(queue: &mut Queue, now: Timestamp) -> ApiRequest {
    match queue.next(now) {
        Next::Send(order) => order,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_repeated_event_increases_the_count() {
    let mut queue = queue();
    for _ in 0..3 {
        queue.offer(at(0), notice(1, Reason::WouldQuit, "a"));
    }
    let order = send(&mut queue, at(0));
    assert!(order.create);
    assert_eq!(order.body["series"]["count"], 3);
    // A repetition while the request is in flight.
    queue.offer(at(1), notice(1, Reason::WouldQuit, "a"));
    assert_eq!(queue.next(at(1)), Next::Nothing);
    queue.complete(at(2), ApiResult::Accepted);
    let patch = send(&mut queue, at(2));
    assert!(!patch.create && patch.name == order.name);
    assert_eq!(patch.body["series"]["count"], 4);
    queue.complete(at(3), ApiResult::Accepted);
    assert!(queue.is_empty());
    // A repetition while the queue is empty.
    queue.offer(at(3), notice(1, Reason::WouldQuit, "a"));
    let patch = send(&mut queue, at(3));
    assert!(!patch.create && patch.name == order.name);
    assert_eq!(patch.body["series"]["count"], 5);
    queue.complete(at(3), ApiResult::Accepted);
    // Another note, and the same note after the window.
    queue.offer(at(4), notice(1, Reason::WouldQuit, "b"));
    assert!(send(&mut queue, at(4)).create);
    queue.complete(at(5), ApiResult::Accepted);
    let mut later = notice(1, Reason::WouldQuit, "a");
    later.at_us += super::super::object::WINDOW_US;
    queue.offer(at(600_003), later);
    let order_later = send(&mut queue, at(600_003));
    assert!(order_later.create && order_later.name != order.name);
}

#[test]
fn a_failed_request_backs_off_and_stays_first_for_a_while() {
    let mut queue = queue();
    queue.offer(at(0), notice(1, Reason::WouldQuit, "first"));
    queue.offer(at(0), notice(2, Reason::WouldQuit, "second"));
    let mut now = at(0);
    let mut waits = Vec::new();
    for attempt in 0..9 {
        let sent = send(&mut queue, now);
        assert!(
            attempt > FIRST_TRIES || sent.body["note"] == "first",
            "{sent:?}"
        );
        queue.complete(now, ApiResult::Retry(None));
        let Next::At(next) = queue.next(now) else {
            panic!("it waits")
        };
        waits.push(next.since(now).as_millis());
        now = next;
    }
    let doubled = [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000];
    assert_eq!(waits, doubled);
    send(&mut queue, now);
    queue.complete(now, ApiResult::Retry(Some(Duration::from_secs(77))));
    assert_eq!(queue.next(now), Next::At(now + Duration::from_secs(77)));
    now = now + Duration::from_secs(77);
    send(&mut queue, now);
    queue.complete(now, ApiResult::Accepted);
    assert_eq!(send(&mut queue, now).body["note"], "first");
    queue.complete(now, ApiResult::Gone);
    assert!(queue.is_empty());
    // A pod that is gone is forgotten.
    queue.offer(now, notice(1, Reason::WouldQuit, "first"));
    assert!(send(&mut queue, now).create);
}

#[test]
fn the_rate_limit_of_one_pod_does_not_delay_others() {
    let mut queue = queue();
    for number in 0..60 {
        queue.offer(at(0), notice(1, Reason::WouldQuit, &number.to_string()));
    }
    queue.offer(at(0), notice(2, Reason::WouldQuit, "other"));
    let mut now = at(0);
    let mut sent: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    loop {
        match queue.next(now) {
            Next::Send(order) => {
                let name = order.body["regarding"]["name"].as_str().unwrap().to_owned();
                let second = now.since_start().as_secs();
                sent.entry(second).or_default().push(name);
                queue.complete(now, ApiResult::Accepted);
            }
            Next::At(next) => now = next,
            Next::Nothing => break,
        }
    }
    assert_eq!(sent[&0].len(), 26);
    assert!(sent[&0].contains(&"pod-2".to_owned()));
    let seconds: Vec<u64> = sent.keys().copied().collect();
    assert_eq!(seconds, (0..36).map(|step| step * 5).collect::<Vec<_>>());
    assert!(queue.pod_budgets.len() <= 1);
}

#[test]
fn events_of_250_simultaneous_jobs_are_all_sent() {
    let mut queue = queue();
    for pod in 0..250 {
        queue.offer(at(0), notice(pod, Reason::SidecarQuit, "ended"));
    }
    let mut now = at(0);
    let mut names = BTreeSet::new();
    loop {
        match queue.next(now) {
            Next::Send(order) => {
                assert!(names.insert(order.name));
                queue.complete(now, ApiResult::Accepted);
            }
            Next::At(next) => now = next,
            Next::Nothing => break,
        }
    }
    assert_eq!(names.len(), 250);
    assert_eq!(queue.dropped(), 0);
    assert_eq!(now, at(20_000), "50 at once, then 10 in a second");
}

#[test]
fn warnings_are_dropped_last_and_drops_are_reported() {
    let mut queue = queue();
    queue.offer(at(0), notice(1, Reason::SidecarStays, "stays"));
    send(&mut queue, at(0));
    queue.complete(at(0), ApiResult::Retry(None));
    for pod in 2..2002 {
        queue.offer(at(1), notice(pod, Reason::SidecarQuit, "ended"));
    }
    assert_eq!(queue.len(), LIMITS.waiting);
    assert_eq!(queue.dropped(), 2001 - 1024);
    assert_eq!(
        queue.take_dropped_report(at(1)),
        None,
        "the server does not reply"
    );
    let mut now = at(1);
    let (mut sent, mut losses) = (Vec::new(), Vec::new());
    loop {
        match queue.next(now) {
            Next::Send(order) => {
                sent.push(order.body["regarding"]["name"].clone());
                queue.complete(now, ApiResult::Accepted);
                losses.extend(queue.take_dropped_report(now));
                if sent.len() == 300 {
                    queue.add_dropped(2);
                }
            }
            Next::At(next) => now = next,
            Next::Nothing => break,
        }
    }
    assert_eq!(sent.len(), 1024);
    assert_eq!(sent[0], "pod-1");
    assert_eq!(sent[1], "pod-979", "the oldest were dropped");
    assert_eq!(losses, [977, 2], "at most one report a minute");
}

#[test]
fn drops_are_reported_once_a_minute() {
    let mut queue = queue();
    assert_eq!(queue.take_dropped_report(at(0)), None);
    queue.add_dropped(3);
    assert_eq!(queue.take_dropped_report(at(0)), Some(3));
    queue.add_dropped(2);
    assert_eq!(queue.take_dropped_report(at(59_999)), None);
    assert_eq!(queue.take_dropped_report(at(60_000)), Some(2));
    assert_eq!(queue.take_dropped_report(at(120_000)), None);
}

#[test]
fn a_request_in_flight_counts_as_unsent() {
    let mut queue = queue();
    assert!(queue.is_empty());
    queue.offer(at(0), notice(1, Reason::WouldQuit, "a"));
    queue.offer(at(0), notice(2, Reason::WouldQuit, "a"));
    assert_eq!((queue.len(), queue.is_empty()), (2, false));
    for left in [1, 0] {
        send(&mut queue, at(0));
        assert_eq!((queue.len(), queue.is_empty()), (left + 1, false));
        queue.complete(at(0), ApiResult::Accepted);
        assert_eq!(queue.len(), left);
    }
    assert!(queue.is_empty());
}
