//! What the Events of one namespace do to those of others.

use super::super::tests::*;

/// Sends from one moment to another. The server refuses what is in `broken`. Returns the accepted
/// pods with their moments, and the number of refusals.
fn run(
    queue: &mut Queue,
    from: Timestamp,
    until: Timestamp,
    broken: &[&str],
) -> (Vec<(u64, String)>, usize) {
    let (mut now, mut accepted, mut refused) = (from, Vec::new(), 0);
    while now < until {
        match queue.next(now) {
            Next::Send(request) if broken.contains(&&*request.namespace) => {
                refused += 1;
                queue.complete(now, ApiResult::Retry(None));
            }
            Next::Send(request) => {
                let name = request.body["regarding"]["name"].as_str().unwrap();
                accepted.push((now.since_start().as_secs(), name.to_owned()));
                queue.complete(now, ApiResult::Accepted);
            }
            Next::At(next) => now = next,
            Next::Nothing => break,
        }
    }
    (accepted, refused)
}

/// As with an admission webhook of this namespace that fails.
#[test]
fn failing_namespace_does_not_delay_others() {
    let mut queue = queue();
    for pod in 0..40 {
        queue.offer(at(0), notice_in("broken", pod, Reason::SidecarStays));
    }
    for pod in 40..80 {
        queue.offer(at(0), notice_in("shop", pod, Reason::SidecarQuit));
    }
    let (accepted, refused) = run(&mut queue, at(0), at(600_000), &["broken"]);
    assert_eq!(accepted.len(), 40);
    let last = accepted.last().unwrap().0;
    assert!(last <= 5, "the last after {last} s");
    assert!((20..40).contains(&refused), "{refused}");
    assert_eq!(queue.len(), 40);
    let (accepted, _refused) = run(&mut queue, at(600_000), at(1_200_000), &[]);
    assert_eq!(accepted.len(), 40, "when the webhook works again");
    assert!(queue.is_empty());
}

/// As with an admission webhook that refuses some Events for ever.
#[test]
fn refused_events_delay_the_others_of_their_namespace_for_a_while() {
    let mut queue = queue();
    let refused = ["pod-0", "pod-1", "pod-2", "pod-3", "pod-4"];
    // When the one that is not refused is sent.
    let sent = |queue: &mut Queue, from: Timestamp| {
        let mut now = from;
        loop {
            match queue.next(now) {
                Next::Send(request) => {
                    let name = request.body["regarding"]["name"].as_str().unwrap();
                    if !refused.contains(&name) {
                        queue.complete(now, ApiResult::Accepted);
                        return now.since(from);
                    }
                    queue.complete(now, ApiResult::Retry(None));
                }
                Next::At(next) => now = next,
                Next::Nothing => panic!("nothing is left"),
            }
        }
    };
    for pod in 0..6 {
        queue.offer(at(0), notice_in("shop", pod, Reason::SidecarStays));
    }
    let minutes = Duration::from_secs(180);
    assert!(sent(&mut queue, at(0)) < minutes);
    run(&mut queue, at(200_000), at(600_000), &["shop"]);
    queue.offer(at(600_000), notice_in("shop", 6, Reason::SidecarStays));
    assert!(sent(&mut queue, at(600_000)) <= Duration::from_secs(30));
    assert_eq!(queue.len(), refused.len());
}

/// Events that failed in an outage are older than those after it.
#[test]
fn events_of_an_outage_stay_first() {
    let mut queue = queue();
    for pod in 0..4 {
        queue.offer(at(0), notice_in("shop", pod, Reason::SidecarStays));
    }
    let (accepted, refused) = run(&mut queue, at(0), at(120_000), &["shop"]);
    assert!(accepted.is_empty() && refused > 6, "{accepted:?} {refused}");
    queue.offer(at(120_000), notice_in("shop", 4, Reason::SidecarStays));
    let (accepted, _refused) = run(&mut queue, at(120_000), at(240_000), &[]);
    let names: Vec<&str> = accepted.iter().map(|(_at, name)| &name[..]).collect();
    assert_eq!(names.len(), 5);
    assert_eq!(names[4], "pod-4", "{names:?}");
}

/// As without an API server. All requests together are no more than a few a minute.
#[test]
fn failures_of_many_namespaces_delay_all() {
    let mut queue = queue();
    let names: Vec<String> = (0..20).map(|number| format!("n-{number}")).collect();
    for (pod, name) in (0..).zip(&names) {
        queue.offer(at(0), notice_in(name, pod, Reason::SidecarStays));
    }
    let broken: Vec<&str> = names.iter().map(String::as_str).collect();
    let (accepted, refused) = run(&mut queue, at(0), at(600_000), &broken);
    assert_eq!(accepted, []);
    assert!(refused < 40, "{refused}");
}

#[test]
fn crowded_namespace_loses_its_own_events() {
    let mut queue = queue();
    for pod in 0..2000 {
        queue.offer(at(0), notice_in("crowd", pod, Reason::SidecarStays));
        if pod % 100 == 0 {
            queue.offer(at(0), notice_in("shop", 5000 + pod, Reason::SidecarQuit));
        }
    }
    assert_eq!(queue.len(), LIMITS.waiting);
    let of_the_shop = queue.waiting.iter().filter(|key| key.namespace == "shop");
    assert_eq!(of_the_shop.count(), 20);
}
