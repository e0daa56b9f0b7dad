//! What holds whatever happens, in whatever order.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::tests::*;

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
