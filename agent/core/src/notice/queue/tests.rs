use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::notice::{Reason, Regarding};

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

fn queue() -> Queue {
    Queue::new("node-1".to_owned())
}

fn send(queue: &mut Queue, now: Timestamp) -> Order {
    match queue.next(now) {
        Next::Send(order) => order,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_told_again_is_counted() {
    let mut queue = queue();
    for _ in 0..3 {
        queue.offer(at(0), notice(1, Reason::WouldQuit, "a"));
    }
    let order = send(&mut queue, at(0));
    assert!(order.create);
    assert_eq!(order.body["series"]["count"], 3);
    // While it is on its way.
    queue.offer(at(1), notice(1, Reason::WouldQuit, "a"));
    assert_eq!(queue.next(at(1)), Next::Nothing);
    queue.answered(at(2), Answer::Taken);
    let patch = send(&mut queue, at(2));
    assert!(!patch.create && patch.name == order.name);
    assert_eq!(patch.body["series"]["count"], 4);
    queue.answered(at(3), Answer::Taken);
    assert!(queue.is_empty());
    // When nothing waits.
    queue.offer(at(3), notice(1, Reason::WouldQuit, "a"));
    let patch = send(&mut queue, at(3));
    assert!(!patch.create && patch.name == order.name);
    assert_eq!(patch.body["series"]["count"], 5);
    queue.answered(at(3), Answer::Taken);
    // Something else, and the same after a long while.
    queue.offer(at(4), notice(1, Reason::WouldQuit, "b"));
    assert!(send(&mut queue, at(4)).create);
    queue.answered(at(5), Answer::Taken);
    let mut later = notice(1, Reason::WouldQuit, "a");
    later.at_us += super::super::object::WINDOW_US;
    queue.offer(at(600_003), later);
    let order_later = send(&mut queue, at(600_003));
    assert!(order_later.create && order_later.name != order.name);
}

#[test]
fn one_that_fails_waits_longer_and_longer_and_goes_first() {
    let mut queue = queue();
    queue.offer(at(0), notice(1, Reason::WouldQuit, "first"));
    queue.offer(at(0), notice(2, Reason::WouldQuit, "second"));
    let mut now = at(0);
    let mut waits = Vec::new();
    for _ in 0..9 {
        assert_eq!(send(&mut queue, now).body["note"], "first");
        queue.answered(now, Answer::Later(None));
        let Next::At(next) = queue.next(now) else {
            panic!("it waits")
        };
        waits.push(next.since(now).as_millis());
        now = next;
    }
    let doubled = [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000];
    assert_eq!(waits, doubled);
    send(&mut queue, now);
    queue.answered(now, Answer::Later(Some(Duration::from_secs(77))));
    assert_eq!(queue.next(now), Next::At(now + Duration::from_secs(77)));
    now = now + Duration::from_secs(77);
    send(&mut queue, now);
    queue.answered(now, Answer::Taken);
    assert_eq!(send(&mut queue, now).body["note"], "second");
    queue.answered(now, Answer::Gone);
    assert!(queue.is_empty());
    // Whoever is gone is not known any more.
    queue.offer(now, notice(2, Reason::WouldQuit, "second"));
    assert!(send(&mut queue, now).create);
}

#[test]
fn one_pod_does_not_hold_up_the_others() {
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
                queue.answered(now, Answer::Taken);
            }
            Next::At(next) => now = next,
            Next::Nothing => break,
        }
    }
    assert_eq!(sent[&0].len(), 26);
    assert!(sent[&0].contains(&"pod-2".to_owned()));
    let seconds: Vec<u64> = sent.keys().copied().collect();
    assert_eq!(seconds, (0..36).map(|step| step * 5).collect::<Vec<_>>());
    assert!(queue.of_pods.len() <= 1);
}

#[test]
fn many_jobs_at_once_all_have_theirs() {
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
                queue.answered(now, Answer::Taken);
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
fn warnings_go_last_and_losses_are_told() {
    let mut queue = queue();
    queue.offer(at(0), notice(1, Reason::SidecarStays, "stays"));
    send(&mut queue, at(0));
    queue.answered(at(0), Answer::Later(None));
    for pod in 2..2002 {
        queue.offer(at(1), notice(pod, Reason::SidecarQuit, "ended"));
    }
    assert_eq!(queue.len(), LIMITS.waiting);
    assert_eq!(queue.dropped(), 2001 - 1024);
    assert_eq!(queue.losses(at(1)), None, "nobody would take it");
    let mut now = at(1);
    let (mut sent, mut losses) = (Vec::new(), Vec::new());
    loop {
        match queue.next(now) {
            Next::Send(order) => {
                sent.push(order.body["regarding"]["name"].clone());
                queue.answered(now, Answer::Taken);
                losses.extend(queue.losses(now));
                if sent.len() == 300 {
                    queue.lost(2);
                }
            }
            Next::At(next) => now = next,
            Next::Nothing => break,
        }
    }
    assert_eq!(sent.len(), 1024);
    assert_eq!(sent[0], "pod-1");
    assert_eq!(sent[1], "pod-979", "the oldest were lost");
    assert_eq!(losses, [977, 2], "at most one in a minute");
}

#[test]
fn losses_are_told_once_in_a_minute() {
    let mut queue = queue();
    assert_eq!(queue.losses(at(0)), None);
    queue.lost(3);
    assert_eq!(queue.losses(at(0)), Some(3));
    queue.lost(2);
    assert_eq!(queue.losses(at(59_999)), None);
    assert_eq!(queue.losses(at(60_000)), Some(2));
    assert_eq!(queue.losses(at(120_000)), None);
}

#[test]
fn what_is_on_its_way_is_not_done() {
    let mut queue = queue();
    assert!(queue.is_empty());
    queue.offer(at(0), notice(1, Reason::WouldQuit, "a"));
    queue.offer(at(0), notice(2, Reason::WouldQuit, "a"));
    assert_eq!((queue.len(), queue.is_empty()), (2, false));
    for left in [1, 0] {
        send(&mut queue, at(0));
        assert_eq!((queue.len(), queue.is_empty()), (left + 1, false));
        queue.answered(at(0), Answer::Taken);
        assert_eq!(queue.len(), left);
    }
    assert!(queue.is_empty());
}

#[test]
fn what_just_fits_is_kept() {
    let said = |pod| notice(pod, Reason::SidecarQuit, "ended");
    let mut queue = queue();
    queue.offer(at(0), said(1));
    let one = queue.bytes;
    for (waiting, bytes) in [(2, 9 * one), (9, 2 * one)] {
        let known = 9;
        let limits = Limits {
            waiting,
            bytes,
            known,
        };
        let mut queue = Queue::with("node-1".to_owned(), limits);
        queue.offer(at(0), said(1));
        queue.offer(at(0), said(2));
        assert_eq!(queue.dropped(), 0, "{limits:?}");
        queue.offer(at(0), said(3));
        assert_eq!((queue.dropped(), queue.len()), (1, 2), "{limits:?}");
    }
}

/// Others write them, and may write as much as the API server takes.
#[test]
fn every_text_of_a_notice_counts() {
    let bytes = |namespace: &str, name: &str, container: &str, note: &str| {
        let mut queue = queue();
        let regarding = Regarding::Pod {
            uid: "u".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let notice = Notice {
            regarding,
            container: Some(container.to_owned()),
            ..notice(1, Reason::SidecarQuit, note)
        };
        queue.offer(at(0), notice);
        queue.bytes
    };
    let (short, long) = ("shop", &"x".repeat(100)[..]);
    let least = bytes(short, short, short, short);
    assert!(least > 4 * short.len(), "{least}");
    for longer in [
        bytes(long, short, short, short),
        bytes(short, long, short, short),
        bytes(short, short, long, short),
        bytes(short, short, short, long),
    ] {
        assert_eq!(longer, least + long.len() - short.len());
    }
}

#[test]
fn bytes_are_bounded_as_well() {
    let mut queue = queue();
    for pod in 0..1024 {
        queue.offer(at(0), notice(pod, Reason::SidecarQuit, &"n".repeat(1024)));
    }
    assert!(
        queue.bytes <= LIMITS.bytes && queue.len() > 500,
        "{}",
        queue.len()
    );
    assert!(queue.dropped() > 0);
}

#[test]
fn what_is_known_is_bounded() {
    let mut queue = queue();
    for pod in 0..5000 {
        let now = at(u64::from(pod) * 100);
        queue.offer(now, notice(pod, Reason::SidecarQuit, "ended"));
        send(&mut queue, now);
        queue.answered(now, Answer::Taken);
        assert!(queue.objects.len() <= LIMITS.known);
        assert!(queue.of_pods.len() <= 100, "those that are not full");
    }
    queue.offer(at(10_000_000), notice(1, Reason::SidecarQuit, "ended"));
    assert_eq!(queue.objects.len(), 1);
}

#[derive(Debug, Clone)]
enum Happening {
    Offer(u32, Reason, u8),
    Next,
    Answer(Answer),
    Wait(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let reason = prop::sample::select(Reason::ALL);
    let answers = [
        Answer::Taken,
        Answer::Taken,
        Answer::Gone,
        Answer::Refused,
        Answer::Later(None),
        Answer::Later(Some(Duration::MAX)),
    ];
    prop_oneof![
        8 => (0..40_u32, reason, 0..2_u8)
            .prop_map(|(pod, reason, note)| Happening::Offer(pod, reason, note)),
        4 => Just(Happening::Next),
        4 => prop::sample::select(answers.to_vec()).prop_map(Happening::Answer),
        1 => (0..400_000_u64).prop_map(Happening::Wait),
    ]
}

impl Queue {
    /// What has to hold at every moment.
    fn check(&self) {
        assert!(self.waiting.len() <= self.limits.waiting && self.bytes <= self.limits.bytes);
        assert!(self.objects.len() <= self.limits.known);
        let keys: BTreeSet<&Key> = self.waiting.iter().collect();
        assert_eq!(keys.len(), self.waiting.len(), "each waits once");
        for (key, object) in &self.objects {
            assert_eq!(object.waits, keys.contains(key));
            assert!(object.exists() || object.waits || self.in_flight.as_ref() == Some(key));
        }
        let bytes: usize = self.objects.values().map(Object::bytes).sum();
        assert_eq!(bytes, self.bytes);
        assert!(keys.iter().all(|key| self.objects.contains_key(key)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever happens, it is bounded, nothing is created twice, and what is kept is sent in the end.
    #[test]
    fn bounded_and_never_twice(happenings in prop::collection::vec(happening(), 0..400)) {
        let limits = Limits { waiting: 8, bytes: 4096, known: 4096 };
        let mut queue = Queue::with("node-1".to_owned(), limits);
        let mut now = at(0);
        let mut alive = BTreeSet::new();
        let mut flying: Option<Order> = None;
        let mut answer = |queue: &mut Queue, now, flying: &mut Option<Order>, answer| {
            let order = flying.take();
            queue.answered(now, answer);
            match (order, answer) {
                (Some(order), Answer::Taken) if order.create => {
                    assert!(alive.insert(order.name.clone()), "{} was created twice", order.name);
                }
                (Some(order), Answer::Taken) => {
                    assert!(alive.contains(&order.name), "patched before it was there");
                }
                (Some(order), Answer::Gone | Answer::Refused) => {
                    alive.remove(&order.name);
                }
                _ => {}
            }
        };
        for happening in happenings {
            match happening {
                Happening::Offer(pod, reason, note) => {
                    let mut notice = notice(pod, reason, &note.to_string());
                    notice.at_us += u64::try_from(now.since_start().as_micros()).unwrap();
                    queue.offer(now, notice);
                }
                Happening::Next => if let Next::Send(order) = queue.next(now) {
                    assert!(flying.is_none(), "one at a time");
                    flying = Some(order);
                },
                Happening::Answer(what) => answer(&mut queue, now, &mut flying, what),
                Happening::Wait(ms) => now = now + Duration::from_millis(ms),
            }
            queue.check();
        }
        answer(&mut queue, now, &mut flying, Answer::Taken);
        let mut steps = 0;
        loop {
            steps += 1;
            prop_assert!(steps < 20_000, "it goes on for ever");
            match queue.next(now) {
                Next::Send(order) => {
                    flying = Some(order);
                    answer(&mut queue, now, &mut flying, Answer::Taken);
                }
                Next::At(next) => {
                    prop_assert!(next > now);
                    now = next;
                }
                Next::Nothing => break,
            }
            queue.check();
        }
        prop_assert!(queue.is_empty());
    }
}
