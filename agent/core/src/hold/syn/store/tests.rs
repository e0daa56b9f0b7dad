use std::time::Duration;

use etherparse::PacketBuilder;
use proptest::{collection::vec, prelude::*};

use super::super::*;
use crate::base::{id::SandboxId, time::Timestamp};

/// Room for some 40 copies.
const SMALL: usize = 25_000;

fn sandbox(number: u8) -> SandboxId {
    SandboxId::parse(&format!("sandbox-{number}")).unwrap()
}

fn syn(source: u16, sequence: u32) -> Syn {
    let mut packet = Vec::new();
    PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64)
        .tcp(source, 80, sequence, 64_240)
        .syn()
        .write(&mut packet, &[])
        .unwrap();
    Syn::parse(&packet).unwrap()
}

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::new(Duration::from_millis(milliseconds))
}

fn sources(taken: &[Held]) -> Vec<u16> {
    let source = |held: &Held| held.syn.connection().source.port();
    taken.iter().map(source).collect()
}

#[test]
fn largest_sandbox_loses_its_oldest_copy() {
    let mut store = CopyStore::with_budget(SMALL);
    for source in 1..=3 {
        store.keep(&sandbox(1), syn(source, 0), at(0));
    }
    let mut kept = 0;
    while store.dropped(&sandbox(2)) < 5 {
        kept += 1;
        store.keep(&sandbox(2), syn(kept, 0), at(1));
    }
    assert_eq!(store.dropped(&sandbox(1)), 0);
    assert_eq!(sources(&store.take(&sandbox(1), 2)), [1, 2]);
    assert_eq!(sources(&store.take(&sandbox(1), 2)), [3]);
    let expected: Vec<u16> = (6..=kept).collect();
    assert_eq!(sources(&store.take(&sandbox(2), usize::MAX)), expected);
    // The count of dropped copies stays until the sandbox is forgotten.
    assert_eq!((store.dropped(&sandbox(2)), store.bytes()), (5, 0));
    store.forget(&sandbox(2));
    assert_eq!(store.dropped(&sandbox(2)), 0);
    assert!(store.forget(&sandbox(2)).is_none());
    assert!(store.take(&sandbox(2), 1).is_empty());
}

#[test]
fn node_has_room_for_three_sandboxes_with_all_their_copies() {
    let mut store = CopyStore::default();
    for number in 1..=4 {
        for source in 1..=MOST_COPIES as u16 {
            store.keep(&sandbox(number), syn(source, 0), at(0));
        }
        let dropped: u64 = (1..=4).map(|number| store.dropped(&sandbox(number))).sum();
        assert_eq!(dropped > 0, number > 3, "{dropped} with {number} sandboxes");
    }
    assert!(store.bytes() <= BUDGET);
}

#[test]
fn a_store_without_room_keeps_nothing() {
    let mut store = CopyStore::with_budget(0);
    store.keep(&sandbox(1), syn(1, 0), at(0));
    assert_eq!((store.dropped(&sandbox(1)), store.bytes()), (1, 0));
}

#[derive(Debug, Clone)]
enum Step {
    Keep {
        sandbox: u8,
        source: u16,
        sequence: u32,
    },
    Take {
        sandbox: u8,
        most: usize,
        put_back: bool,
    },
    Forget {
        sandbox: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..4_u8, 0..60_u16, 0..2_u32).prop_map(|(sandbox, source, sequence)| Step::Keep {
            // Sandbox 0 sends most.
            sandbox: sandbox.saturating_sub(1),
            source,
            sequence,
        }),
        1 => (0..3_u8, 0..8_usize, any::<bool>())
            .prop_map(|(sandbox, most, put_back)| Step::Take { sandbox, most, put_back }),
        1 => (0..3_u8).prop_map(|sandbox| Step::Forget { sandbox }),
    ]
}

proptest! {
    /// Sandboxes that stay below an equal share of the budget lose no copy.
    #[test]
    fn budget_is_kept_at_the_expense_of_the_largest(steps in vec(step(), 0..400)) {
        let mut store = CopyStore::with_budget(SMALL);
        let mut alone: [Copies; 3] = Default::default();
        let mut was_large = [false; 3];
        for (time, step) in steps.into_iter().enumerate() {
            match step {
                Step::Keep { sandbox: number, source, sequence } => {
                    let arrived = at(time as u64);
                    store.keep(&sandbox(number), syn(source, sequence), arrived);
                    let alone = &mut alone[usize::from(number)];
                    alone.keep(syn(source, sequence), arrived);
                    was_large[usize::from(number)] |= alone.bytes() > SMALL / 3;
                }
                Step::Take { sandbox: number, most, put_back } => {
                    let taken = store.take(&sandbox(number), most);
                    let alone = &mut alone[usize::from(number)];
                    let expected = alone.take(most);
                    if !was_large[usize::from(number)] {
                        prop_assert_eq!(&taken, &expected);
                    }
                    for (held, expected) in taken.into_iter().zip(expected).filter(|_| put_back) {
                        store.put_back(&sandbox(number), held);
                        alone.put_back(expected);
                    }
                }
                Step::Forget { sandbox: number } => {
                    store.forget(&sandbox(number));
                    alone[usize::from(number)] = Copies::default();
                    was_large[usize::from(number)] = false;
                }
            }
            prop_assert!(store.bytes() <= SMALL);
            for number in (0..3).filter(|number| !was_large[usize::from(*number)]) {
                prop_assert_eq!(store.dropped(&sandbox(number)), 0);
            }
        }
        for number in 0..3 {
            let taken = store.take(&sandbox(number), usize::MAX);
            if !was_large[usize::from(number)] {
                prop_assert_eq!(taken, alone[usize::from(number)].take(usize::MAX));
            }
        }
        prop_assert_eq!(store.bytes(), 0);
    }
}
