//! Invariants of the queue over arbitrary sequences of operations.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::tests::*;

#[derive(Debug, Clone)]
enum Operation {
    Offer(u32, Reason, u8),
    Next,
    Complete(ApiResult),
    Wait(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    let reason = prop::sample::select(Reason::ALL);
    let results = [
        ApiResult::Accepted,
        ApiResult::Accepted,
        ApiResult::Gone,
        ApiResult::Rejected,
        ApiResult::Retry(None),
        ApiResult::Retry(Some(Duration::MAX)),
    ];
    prop_oneof![
        8 => (0..40_u32, reason, 0..2_u8)
            .prop_map(|(pod, reason, note)| Operation::Offer(pod, reason, note)),
        4 => Just(Operation::Next),
        4 => prop::sample::select(results.to_vec()).prop_map(Operation::Complete),
        1 => (0..400_000_u64).prop_map(Operation::Wait),
    ]
}

impl Queue {
    /// Checks the invariants.
    fn check(&self) {
        assert!(self.waiting.len() <= self.limits.waiting && self.bytes <= self.limits.bytes);
        assert!(self.objects.len() <= self.limits.objects);
        let keys: BTreeSet<&Key> = self.waiting.iter().collect();
        assert_eq!(
            keys.len(),
            self.waiting.len(),
            "the queue contains each key once"
        );
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

    /// The queue stays bounded, creates no Event twice, and sends every kept Event in the end.
    #[test]
    fn bounded_and_never_twice(operations in prop::collection::vec(operation(), 0..400)) {
        let limits = Limits { waiting: 8, bytes: 4096, objects: 4096 };
        let mut queue = Queue::with("node-1".to_owned(), limits);
        let mut now = at(0);
        let mut alive = BTreeSet::new();
        let mut in_flight: Option<ApiRequest> = None;
        let mut complete = |queue: &mut Queue, now, in_flight: &mut Option<ApiRequest>, result| {
            let request = in_flight.take();
            queue.complete(now, result);
            match (request, result) {
                (Some(request), ApiResult::Accepted) if request.create => {
                    assert!(alive.insert(request.name.clone()), "{} was created twice", request.name);
                }
                (Some(request), ApiResult::Accepted) => {
                    assert!(alive.contains(&request.name), "patched before it was created");
                }
                (Some(request), ApiResult::Gone | ApiResult::Rejected) => {
                    alive.remove(&request.name);
                }
                _ => {}
            }
        };
        for operation in operations {
            match operation {
                Operation::Offer(pod, reason, note) => {
                    let mut notice = notice(pod, reason, &note.to_string());
                    notice.at_us += u64::try_from(now.since_start().as_micros()).unwrap();
                    queue.offer(now, notice);
                }
                Operation::Next => if let Next::Send(request) = queue.next(now) {
                    assert!(in_flight.is_none(), "one at a time");
                    in_flight = Some(request);
                },
                Operation::Complete(result) => complete(&mut queue, now, &mut in_flight, result),
                Operation::Wait(ms) => now = now + Duration::from_millis(ms),
            }
            queue.check();
        }
        complete(&mut queue, now, &mut in_flight, ApiResult::Accepted);
        let mut steps = 0;
        loop {
            steps += 1;
            prop_assert!(steps < 20_000, "the queue does not drain");
            match queue.next(now) {
                Next::Send(request) => {
                    in_flight = Some(request);
                    complete(&mut queue, now, &mut in_flight, ApiResult::Accepted);
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
