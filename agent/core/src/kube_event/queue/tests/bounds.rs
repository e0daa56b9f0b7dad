//! The limits of the queue.

use super::super::tests::*;

#[test]
fn events_up_to_the_limit_are_kept() {
    let ended = |pod| notice(pod, Reason::SidecarQuit, "ended");
    let mut queue = queue();
    queue.offer(at(0), ended(1));
    let one = queue.bytes;
    for (waiting, bytes) in [(2, 9 * one), (9, 2 * one)] {
        let objects = 9;
        let limits = Limits {
            waiting,
            bytes,
            objects,
        };
        let mut queue = Queue::with("node-1".to_owned(), limits);
        queue.offer(at(0), ended(1));
        queue.offer(at(0), ended(2));
        assert_eq!(queue.dropped(), 0, "{limits:?}");
        queue.offer(at(0), ended(3));
        assert_eq!((queue.dropped(), queue.len()), (1, 2), "{limits:?}");
    }
}

/// Users choose these texts, up to the limits of the API server.
#[test]
fn every_text_of_a_notice_counts_towards_the_bytes() {
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
fn bytes_are_bounded() {
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
fn remembered_objects_are_bounded() {
    let mut queue = queue();
    for pod in 0..5000 {
        let now = at(u64::from(pod) * 100);
        queue.offer(now, notice(pod, Reason::SidecarQuit, "ended"));
        send(&mut queue, now);
        queue.complete(now, ApiResult::Accepted);
        assert!(queue.objects.len() <= LIMITS.objects);
        assert!(
            queue.pod_budgets.len() <= 100,
            "only buckets that are not full"
        );
    }
    queue.offer(at(10_000_000), notice(1, Reason::SidecarQuit, "ended"));
    assert_eq!(queue.objects.len(), 1);
}
