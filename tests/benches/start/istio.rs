//! The same with Istio's real proxy. Jobs run one after the other, the alternatives in turn.

use usher_cluster::mesh::{Outcome, run_job};
use usher_tests::record::{Limit, Record, Sample};

use crate::{Effort, arm::Arm, place::Place};

#[derive(Default)]
struct Row {
    /// From the last time that the proxy was not ready.
    main: Sample,
    /// From the binding of the pod.
    bound: Sample,
    early: u32,
}

impl Row {
    fn add(&mut self, arm: Arm, outcome: &Outcome) {
        assert_eq!(
            outcome.app_exit_code(),
            Some(0),
            "{}: {outcome:#?}",
            arm.name()
        );
        let main_at = outcome.app[0].main_at;
        let unready_at = outcome.proxy_unready_at.unwrap_or(outcome.bound_at);
        match main_at.duration_since(unready_at) {
            Ok(after) => self.main.add(after),
            Err(_) => self.early += 1,
        }
        self.bound
            .add(main_at.duration_since(outcome.bound_at).unwrap_or_default());
    }
}

pub(crate) fn measure(record: &mut Record, place: &Place, effort: &Effort) {
    let mut rows: Vec<(Arm, Row)> = effort
        .arms
        .iter()
        .map(|&arm| (arm, Row::default()))
        .collect();
    for _ in 0..effort.jobs {
        for (arm, row) in &mut rows {
            let outcome = run_job(&place.cluster, &arm.variant()).unwrap();
            row.add(*arm, &outcome);
        }
    }
    record.section("ready -> main(), Istio's proxy (up to 3 ms are the measurement's)");
    for (arm, row) in &rows {
        record.times(arm.name(), &row.main);
        if *arm == Arm::Usher {
            record.limit(
                "start.missed",
                "ran before",
                f64::from(row.early),
                Limit::AtMost(0.0),
            );
        }
    }
    record.section("pod bound -> main(), Istio's proxy");
    for (arm, row) in &rows {
        record.times(arm.name(), &row.bound);
    }
}
