//! From an app's last instruction to the completion of its Job.

use usher_cluster::mesh::{BY_CONTROLLER, Proxy, Variant, complete_jobs};
use usher_tests::record::{Limit, Record, Sample};

use crate::{Effort, place::Place};

/// The run times of the apps of a round, so that no two exit at the same moment.
const RUNS: [&str; 5] = ["6000ms", "6700ms", "7400ms", "8100ms", "8800ms"];
const HOLD_OFF: (&str, &str) = ("usher.dev/hold", "false");
const QUIT_OFF: (&str, &str) = ("usher.dev/quit", "false");

pub(crate) fn measure(record: &mut Record, place: &Place, effort: &Effort) {
    let arms = arms();
    let mut samples = vec![Sample::default(); arms.len()];
    for round in 0..effort.completions {
        let run = |(number, (_, variant)): (usize, &(&str, Variant))| {
            let mut variant = variant.clone();
            // Each kind takes each position in the row.
            variant
                .args
                .extend(["--run-for", RUNS[(number + round) % RUNS.len()]]);
            variant
        };
        let variants: Vec<Variant> = arms.iter().enumerate().map(run).collect();
        let took = complete_jobs(&place.cluster, &variants).unwrap();
        for (sample, took) in samples.iter_mut().zip(took) {
            sample.add(took);
        }
    }
    record.section("app exit -> Job complete");
    for ((name, _), sample) in arms.iter().zip(&samples) {
        record.times(name, sample);
    }
    let medians: Vec<f64> = samples.iter().map(|one| one.quantile_ms(0.5)).collect();
    let [usher, none, native, ..] = medians[..] else {
        return;
    };
    record.limit(
        "job.ratio",
        "usher / no sidecar, p50",
        usher / none,
        Limit::Between(0.95, 1.05),
    );
    record
        .limit("job.native", "usher, p50, ms", usher, Limit::Below(native))
        .against("native sidecar", native);
    for ((name, _), median) in arms.iter().zip(&medians).skip(1) {
        record.figure(&format!("{name} / no sidecar, p50"), median / none);
    }
}

/// All apps retry until the proxy is ready, so the wait for it is not measured.
fn arms() -> [(&'static str, Variant); RUNS.len()] {
    let job = |proxy, annotations: &[(&'static str, &'static str)]| Variant {
        args: vec!["--retry-for", "60s"],
        annotations: [&[HOLD_OFF], annotations].concat(),
        ..Variant::new(proxy)
    };
    let wrapped = Variant {
        has_parent: true,
        ..job(Proxy::Last, &[QUIT_OFF])
    };
    [
        ("usher", job(Proxy::Last, &[])),
        ("no sidecar", job(Proxy::None, &[QUIT_OFF])),
        ("native sidecar", job(Proxy::Native, &[QUIT_OFF])),
        ("wrapper in the container", wrapped),
        (
            "controller, status and exec",
            job(Proxy::Last, &[QUIT_OFF, BY_CONTROLLER]),
        ),
    ]
}
