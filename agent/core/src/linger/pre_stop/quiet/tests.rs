use proptest::prelude::*;

use super::*;

const FIRST: Sample = Sample {
    internal: 0,
    is_first: true,
    listens: true,
    connections: 0,
    bytes: 0,
    from_node: 0,
};
const SILENT: Sample = Sample {
    is_first: false,
    ..FIRST
};
const NEW_CONNECTION: Sample = Sample {
    connections: 1,
    ..SILENT
};
const BYTES: Sample = Sample { bytes: 1, ..SILENT };

fn at(ms: u64) -> Timestamp {
    Timestamp::new(Duration::from_millis(ms))
}

const fn from_node(connections: u64) -> Sample {
    Sample {
        from_node: connections,
        ..SILENT
    }
}

/// Runs a hold that began at 0 with a reply to each sample `latency` after its request, until the ceiling. Returns when
/// and why it was released.
fn run(
    ceiling: u64,
    latency: u64,
    mut reply: impl FnMut(u64, bool) -> Option<Sample>,
) -> (u64, Option<Released>) {
    let mut quiet = Quiet::new(at(0));
    let (mut now, mut is_first) = (0, true);
    while now < ceiling {
        match quiet.next(at(now)) {
            Next::Release(why) => return (now, Some(why)),
            Next::WaitUntil(until) => {
                assert!(until > at(now), "a wake in the past");
                now = u64::try_from(until.since_start().as_millis()).unwrap();
            }
            Next::Sample => {
                quiet.requested(at(now));
                assert_eq!(quiet.next(at(now)), Next::WaitForSample);
                now += latency;
                match reply(now, is_first) {
                    Some(sample) => quiet.sampled(at(now), sample, 1),
                    None => quiet.give_up(Unmeasured::Failed),
                }
                is_first = false;
            }
            Next::WaitForSample => panic!("it has its reply"),
        }
    }
    (ceiling, None)
}

/// Replies of a pod that listens.
fn listening(mut reply: impl FnMut(u64) -> Sample) -> impl FnMut(u64, bool) -> Option<Sample> {
    move |now, is_first| Some(if is_first { FIRST } else { reply(now) })
}

/// The sample of a millisecond.
type Reply = Box<dyn FnMut(u64) -> Sample>;

#[test]
fn table() {
    let quiet = Some(Released::Quiet);
    let (early, floor) = (|now| now < 10_000, 5_000);
    let cases: [(&str, Reply, u64, Option<Released>); 8] = [
        ("no client", Box::new(|_| SILENT), floor + 10, quiet),
        // The agent samples the last traffic at 9.51 s.
        (
            "bytes for 10 s",
            Box::new(move |now| if early(now) { BYTES } else { SILENT }),
            11_520,
            quiet,
        ),
        (
            "new connections for 10 s",
            Box::new(move |now| if early(now) { NEW_CONNECTION } else { SILENT }),
            11_520,
            quiet,
        ),
        ("steady bytes", Box::new(|_| BYTES), 28_000, None),
        (
            "steady connections",
            Box::new(|_| NEW_CONNECTION),
            28_000,
            None,
        ),
        // One probe a second at most.
        (
            "probes",
            Box::new(|now| from_node(u64::from(now % 1000 < 500))),
            floor + 10,
            quiet,
        ),
        (
            "a client on the node",
            Box::new(|_| from_node(2)),
            28_000,
            None,
        ),
        (
            "a new worker, which knows nothing, at 5 s",
            Box::new(|now| if now == 4_510 { FIRST } else { SILENT }),
            6_520,
            quiet,
        ),
    ];
    for (name, reply, end, why) in cases {
        assert_eq!(run(28_000, 10, listening(reply)), (end, why), "{name}");
    }
}

#[test]
fn floor_is_all_where_the_traffic_cannot_be_measured() {
    let failed = Some(Released::Floor(Unmeasured::Failed));
    assert_eq!(run(28_000, 10, |_, _| None), (5_000, failed));
    let later = |now, is_first: bool| match is_first {
        true => Some(FIRST),
        false => (now < 8_000).then_some(BYTES),
    };
    assert_eq!(run(28_000, 10, later), (8_010, failed));
    let udp = Some(Sample::default());
    let no_listener = Some(Released::Floor(Unmeasured::NoListener));
    assert_eq!(run(28_000, 10, |_, _| udp), (5_000, no_listener));
}

#[test]
fn reply_to_an_earlier_request_is_ignored() {
    let mut quiet = Quiet::new(at(0));
    let before = quiet;
    quiet.sampled(at(100), BYTES, 1);
    assert_eq!(quiet, before);
}

fn sample() -> impl Strategy<Value = Sample> {
    prop_oneof![
        4 => Just(SILENT),
        1 => Just(BYTES),
        1 => Just(NEW_CONNECTION),
        1 => (0..3_u64).prop_map(from_node),
        1 => Just(FIRST),
    ]
}

proptest! {
    /// The release never precedes the floor, and never follows sampled traffic within 2 s.
    #[test]
    fn released_after_the_floor_and_after_silence(
        samples in prop::collection::vec(sample(), 1..80),
        latency in 0..3_000_u64,
    ) {
        let mut seen = None;
        let mut samples = samples.into_iter();
        let (end, why) = run(60_000, latency, |now, is_first| {
            let sample = if is_first { FIRST } else { samples.next().unwrap_or(SILENT) };
            if sample.is_first || sample.bytes + sample.connections > 0 {
                seen = Some(now);
            }
            Some(sample)
        });
        prop_assert!(end >= 5_000);
        if why.is_some() {
            prop_assert!(end >= seen.unwrap() + 2_000);
        }
    }

    /// Silence ends every hold.
    #[test]
    fn silence_releases(
        samples in prop::collection::vec(sample(), 0..20),
        latency in 0..1_000_u64,
    ) {
        let mut samples = samples.into_iter();
        let (_end, why) = run(60_000, latency, listening(|_| samples.next().unwrap_or(SILENT)));
        prop_assert_eq!(why, Some(Released::Quiet));
    }

    /// Steady traffic keeps the hold, however slow the samples are.
    #[test]
    fn traffic_keeps(latency in 0..5_000_u64, gap in 0..3_usize) {
        let mut count = 0;
        let (_end, why) = run(60_000, latency, listening(|_| {
            count += 1;
            if gap == 0 || count % gap == 0 { BYTES } else { SILENT }
        }));
        if gap < 2 || latency <= 500 {
            prop_assert_eq!(why, None);
        }
    }
}
