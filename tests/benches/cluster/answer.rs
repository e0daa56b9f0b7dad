//! The time of an app's first successful response in a real Istio mesh, for each way to wait for the proxy.
//!
//! All pods opt out, except those that measure usher. usher terminates none of their sidecars.

use std::time::Duration;

use usher_cluster::mesh::{Outcome, Proxy, Variant, run_job};
use usher_tests::record::{Record, Sample};

use crate::{
    Effort,
    place::Place,
    row::{self, Row},
};

pub(crate) fn measure(record: &mut Record, place: &Place, effort: &Effort) {
    let mut rows = rows();
    for round in 0..effort.answers {
        for row in &mut rows {
            let outcome = run_job(&place.cluster, &row.variant).unwrap();
            println!("round {round}, {}: {}", row.name, row::line(&outcome));
            row.outcomes.push(outcome);
        }
    }
    println!("\n{}", Row::HEAD);
    rows.iter().for_each(|row| println!("{row}"));
    record.section("pod bound -> first good answer, Istio's proxy");
    for row in &rows {
        let mut sample = Sample::default();
        let answers = row.outcomes.iter().filter_map(Outcome::first_good_answer);
        answers.for_each(|after| sample.add(after));
        record.times(row.name, &sample);
    }
    for row in &rows {
        let refused = row.outcomes.iter().filter(|one| one.refused()).count();
        let refused = u32::try_from(refused).unwrap();
        record.figure(&format!("refused: {}, apps", row.name), refused.into());
    }
}

fn rows() -> Vec<Row> {
    let retrying = Variant {
        args: vec!["--retry-for", "60s"],
        ..Variant::new(Proxy::Last)
    };
    let delayed = Variant {
        delay: Some(Duration::from_secs(4)),
        ..retrying.clone()
    };
    let with_usher = [
        ("default order, usher", Variant::new(Proxy::Last)),
        (
            "the same, istiod away for 4 s",
            Variant {
                delay: delayed.delay,
                ..Variant::new(Proxy::Last)
            },
        ),
    ];
    let without = [
        ("no sidecar", Variant::new(Proxy::None)),
        ("default order", Variant::new(Proxy::Last)),
        ("default order, app retries every 2 ms", retrying),
        ("the same, istiod away for 4 s", delayed),
        ("proxy first, not awaited", Variant::new(Proxy::First)),
        (
            "holdApplicationUntilProxyStarts",
            Variant::new(Proxy::Awaited),
        ),
        ("native sidecar", Variant::new(Proxy::Native)),
    ];
    let row = |(name, variant): (_, Variant), hold| {
        let annotations = vec![("usher.dev/hold", hold), ("usher.dev/quit", "false")];
        Row::new(
            name,
            Variant {
                annotations,
                ..variant
            },
        )
    };
    let without = without.map(|one| row(one, "false"));
    without
        .into_iter()
        .chain(with_usher.map(|one| row(one, "true")))
        .collect()
}
