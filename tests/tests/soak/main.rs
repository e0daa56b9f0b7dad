//! A soak: random pods of all kinds, with random faults, under an independent judge.
//!
//! Everything follows from a seed (`schedule`). The correct outcome of each pod is computed from
//! that by rules that do not use usher's code (`judge`), and compared with the reports of the pods themselves and the
//! kernel. `cargo xtask soak` runs it; otherwise only the rules are tested.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod census;
mod dice;
mod facts;
mod fault;
mod fault_log;
mod judge;
mod lane;
mod life;
mod plan;
mod report;
mod schedule;
mod sidecar;
mod trial;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use usher_tests::privilege;
use usher_tests::synthetic::machine;

use self::report::{Report, Violation};

/// The variables of `cargo xtask soak`.
const LENGTH: &str = "USHER_SOAK_SECONDS";
const SEED: &str = "USHER_SOAK_SEED";
const ROUND: &str = "USHER_SOAK_ROUND";
const CROWD: &str = "USHER_SOAK_PODS";
const PLACE: &str = "USHER_SOAK_DIRECTORY";

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().unwrap())
}

/// Listeners at the node's loopback, which must get no request for a pod.
fn decoys() -> Vec<TcpListener> {
    let addresses: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let ports = [15_020, 15_000, 15_021];
    let places = addresses
        .into_iter()
        .flat_map(|address| ports.map(|port| (address, port)));
    let open = |place| {
        let listener = TcpListener::bind(place).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    };
    places.map(open).collect()
}

#[expect(
    clippy::print_stderr,
    reason = "a person waits for minutes and wants to see something"
)]
fn say(text: &str) {
    eprintln!("{text}");
}

#[test]
#[ignore = "takes minutes: cargo xtask soak"]
fn soak() {
    if !privilege::granted_with(&["nft", "nsenter"]) || !machine::entered_openly("soak") {
        return;
    }
    let length = Duration::from_secs(number(LENGTH, 60));
    let crowd = usize::try_from(number(CROWD, 40)).unwrap();
    let place = std::env::var_os(PLACE).map_or_else(std::env::temp_dir, PathBuf::from);
    let mut report = Report::of(number(SEED, 1));
    let decoys = decoys();
    let stage = lane::Stage::set();
    let began = Instant::now();
    // The first pod creates the agent's permanent resources.
    let first = trial::warm(&stage);
    report.censuses.push(first.clone());
    let mut next = number(ROUND, 0);
    while report.rounds.is_empty() || (began.elapsed() < length && report.violations.is_empty()) {
        let round = schedule::round(report.seed, next);
        trial::play(&stage, &round, crowd, &first, &mut report);
        report.rounds.push(round.number);
        report.seconds = began.elapsed().as_secs();
        if decoys.iter().any(|decoy| decoy.accept().is_ok()) {
            report.violations.push(Violation {
                of: "node".to_owned(),
                what: "a listener at the node's loopback was asked".to_owned(),
                details: String::new(),
            });
        }
        report.write(&place).unwrap();
        say(&format!(
            "round {next} of seed {} is over: {} s, {} violations",
            report.seed,
            report.seconds,
            report.violations.len()
        ));
        next += 1;
    }
    // A panic below would otherwise print the agent's whole log.
    drop(stage);
    say(&report.text());
    let again = format!(
        "cargo xtask soak --seed {} --round {} --for 1s",
        report.seed,
        next - 1
    );
    assert!(report.violations.is_empty(), "again: {again}");
}
