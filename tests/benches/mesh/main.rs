//! When an app in a real Istio has its first good answer, by the ways that
//! there are to wait for the proxy.
//!
//! Jobs run one after the other, the kinds in turn, so that a drift of the
//! machine reaches all of them. Needs a cluster with Istio, and usher on it:
//!
//! ```text
//! cargo xtask cluster --name NAME up --sidecars istio
//! cargo xtask image
//! cargo xtask cluster --name NAME import target/image/usher-agent.tar
//! cargo xtask cluster --name NAME kubectl -- apply -f deploy/usher.yaml
//! cargo xtask cluster --name NAME kubectl -- annotate node --all usher.dev/mode=enforce
//! USHER_TEST_CLUSTER=NAME cargo bench -p usher-tests --bench mesh -- [ROUNDS]
//! ```
//!
//! All pods opt out but those that usher is measured with; none of their
//! sidecars is shown out.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the table is what a benchmark is for, and it ends at the first error"
)]

mod row;

use std::time::Duration;

use row::Row;
use usher_cluster::{
    Cluster,
    mesh::{Proxy, Variant, run_job},
};

const CLUSTER: &str = "USHER_TEST_CLUSTER";
const ROUNDS: usize = 5;

fn main() {
    let Ok(name) = std::env::var(CLUSTER) else {
        println!("SKIPPED: {CLUSTER} names no cluster");
        return;
    };
    let cluster = Cluster::new(&name).unwrap();
    // Cargo adds an argument of its own.
    let rounds = std::env::args().find_map(|argument| argument.parse().ok());
    let mut rows = rows();
    for round in 0..rounds.unwrap_or(ROUNDS) {
        for row in &mut rows {
            let outcome = run_job(&cluster, &row.variant).unwrap();
            println!("round {round}, {}: {}", row.name, row::line(&outcome));
            row.outcomes.push(outcome);
        }
    }
    println!("\n{}", Row::HEAD);
    for row in &rows {
        println!("{row}");
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
