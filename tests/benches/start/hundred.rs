//! A hundred containers that are held and released at the same time.

use std::time::SystemTime;

use usher_tests::record::{Limit, Record, Sample};

use crate::{arm::Arm, place::Place};

const PODS: usize = 10;
const APPS: usize = 10;

pub(crate) fn measure(record: &mut Record, place: &Place) {
    let like = Arm::Usher.crowd(APPS).unwrap_or_default();
    let crowd = place.crowd("hundred", PODS, &like);
    let opened = SystemTime::now();
    for pod in crowd.pods() {
        crowd.open(pod).unwrap();
    }
    let (mut sample, mut early) = (Sample::default(), 0_u32);
    for ran in crowd.ended().unwrap() {
        assert!(ran.apps.iter().all(|app| app.succeeded), "{ran:?}");
        for app in &ran.apps {
            match app.main_at.duration_since(opened) {
                Ok(after) if app.main_at >= ran.ready_at => sample.add(after),
                _ => early += 1,
            }
        }
    }
    record.section("100 containers of 10 pods held at once, all sidecars become ready at once");
    record.times("ready -> main()", &sample);
    record.limit(
        "start.missed",
        "ran before",
        f64::from(early),
        Limit::AtMost(0.0),
    );
}
