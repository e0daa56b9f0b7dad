//! Other pods and the agent while pods attack, compared with the same node without an attack.
//!
//! The packet filter of a hostile pod takes seconds for each packet, its app has ended, and the agent has to request its
//! sidecar to quit (`usher_tests::isolation`). Both nodes are measured in turn.
//!
//! ```text
//! cargo build --release -p usher-agent -p usher-cli -p usher-cni
//! cargo bench -p usher-tests --bench isolation -- [--quick] [--enforce]
//! ```
//!
//! `--enforce` exits with 1 when a budget is exceeded. Needs root, and the programs `ip`, `nft` and `nsenter`.

use std::process::ExitCode;
use std::time::Duration;

use usher_tests::isolation::costly_rules::DEEP;
use usher_tests::isolation::quit::{FOUR_PODS, ONE_POD};
use usher_tests::isolation::{Attack, Figures};
use usher_tests::privilege;
use usher_tests::record::{Limit, Record, Sample, is_quick};

/// Agents for each figure.
const QUICK: usize = 1;
const WHOLE: usize = 5;
const NONE: &str = "no attack";

/// A measured time, and its budget in milliseconds while a processor is free.
struct Time {
    key: &'static str,
    what: &'static str,
    budget: f64,
    of: fn(&Figures) -> Vec<Duration>,
}

const TIMES: [Time; 4] = [
    Time {
        key: "isolation.quit",
        what: "app exit -> quit request of another pod",
        budget: 50.0,
        of: |figures| figures.during.quits.clone(),
    },
    Time {
        key: "isolation.add",
        what: "CNI ADD of another pod",
        budget: 20.0,
        of: |figures| figures.during.adds.clone(),
    },
    Time {
        key: "isolation.health",
        what: "response of /healthz",
        budget: 100.0,
        of: |figures| figures.health.clone(),
    },
    Time {
        key: "isolation.end",
        what: "SIGKILL of the agent -> its end",
        budget: 100.0,
        of: |figures| vec![figures.death],
    },
];

fn main() -> ExitCode {
    if !privilege::granted_with(&["ip", "nft", "nsenter"]) {
        return ExitCode::SUCCESS;
    }
    let agents = if is_quick() { QUICK } else { WHOLE };
    let mut record = Record::begin("isolation");
    let four = Attack {
        depth: DEEP,
        ..FOUR_PODS
    };
    let none = ONE_POD.without_pods();
    let mut measured = [none, ONE_POD, four].map(|attack| (attack, Vec::new()));
    for _ in 0..agents {
        for (attack, figures) in &mut measured {
            figures.push(attack.measure());
        }
    }
    let [usual, attacked @ ..] = measured.map(|(attack, figures)| (name(&attack), figures));
    for time in &TIMES {
        record.section(&format!("{}, during an attack", time.what));
        let without = sample(time, &usual.1);
        record.times(&usual.0, &without);
        for (attack, figures) in &attacked {
            let sample = sample(time, figures);
            record.times(attack, &sample);
            for (what, part) in [("p50", 0.5), ("max", 1.0)] {
                let what = format!("{attack}, {what}, ms");
                let limit = Limit::AtMost(time.budget);
                record
                    .limit(time.key, &what, sample.quantile_ms(part), limit)
                    .against(NONE, without.quantile_ms(part));
            }
        }
    }
    record.finish()
}

fn name(attack: &Attack) -> String {
    match attack.pods {
        0 => NONE.to_owned(),
        1 => "1 hostile pod".to_owned(),
        pods => format!("{pods} hostile pods"),
    }
}

fn sample(time: &Time, figures: &[Figures]) -> Sample {
    let mut sample = Sample::default();
    for took in figures.iter().flat_map(time.of) {
        sample.add(took);
    }
    sample
}
