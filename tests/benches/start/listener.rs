//! From a sidecar's `listen` to its app's first instruction, one pod after the other.

use crate::{
    Effort,
    arm::Arm,
    place::Place,
    sample::Sample,
    table::{Limit, Table},
};

/// Pods at the same time; a node takes 110.
const CROWD: usize = 25;

pub(crate) fn measure(table: &mut Table, place: &Place, effort: &Effort) {
    table.section("ready -> main(), a sidecar that listens");
    for &arm in &effort.arms {
        let Some(like) = arm.crowd(1) else { continue };
        let (mut sample, mut early) = (Sample::default(), 0_u32);
        while sample.len() + (early as usize) < effort.listeners {
            let left = effort.listeners - sample.len();
            let name = format!("{arm:?}-{}", sample.len()).to_lowercase();
            let crowd = place.crowd(&name, left.min(CROWD), &like);
            for pod in crowd.pods() {
                crowd.open(pod).unwrap();
                let ran = crowd.one_ended(pod).unwrap();
                for app in &ran.apps {
                    assert!(app.succeeded, "{}: {ran:?}", arm.name());
                    match app.main_at.duration_since(ran.ready_at) {
                        Ok(after) => sample.add(after),
                        Err(_) => early += 1,
                    }
                }
            }
        }
        table.times(arm.name(), &sample);
        if arm == Arm::Usher {
            let p50 = sample.quantile_ms(0.50);
            table.limit("  p50, ms", p50, Limit::AtMost(5.0));
            table.limit("  ran before", f64::from(early), Limit::AtMost(0.0));
        }
    }
}
