//! From a sidecar's `listen` to its app's first instruction, one pod after the other.

use usher_tests::record::{Limit, Record, Sample};

use crate::{Effort, arm::Arm, place::Place};

/// Simultaneous pods; a node runs 110.
const CROWD: usize = 25;

pub(crate) fn measure(record: &mut Record, place: &Place, effort: &Effort) {
    record.section("ready -> main(), a sidecar that listens");
    let mut medians = Vec::new();
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
        record.times(arm.name(), &sample);
        medians.push((arm, sample.quantile_ms(0.50), early));
    }
    let alternative = medians.iter().find(|(arm, ..)| *arm == Arm::Often);
    let against = alternative.map_or(f64::NAN, |(_, p50, _)| *p50);
    for (_, p50, early) in medians.iter().filter(|(arm, ..)| *arm == Arm::Usher) {
        record
            .limit("start.p50", "p50, ms", *p50, Limit::AtMost(5.0))
            .against(Arm::Often.name(), against);
        let early = f64::from(*early);
        record.limit("start.missed", "ran before", early, Limit::AtMost(0.0));
    }
}
