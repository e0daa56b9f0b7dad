//! From an app's first instruction to the response to its first request. The
//! app takes some time to start: with a hold it starts while the sidecar does;
//! with a wrapper around its command it starts after the sidecar.

use std::time::{Duration, Instant};

use usher_tests::record::{Record, Sample};
use usher_tests::synthetic::wire::Client;

use crate::Effort;
use crate::arm::{Arm, FAR};
use crate::rig::{Rig, be_ready};

/// The delay between the pod's start and the sidecar's readiness, plus up to a second.
const SIDECAR: Duration = Duration::from_secs(1);
/// The duration of the app's own start.
const APP: Duration = Duration::from_millis(500);

pub(crate) fn measure(record: &mut Record, rig: &mut Rig, effort: &Effort) {
    record.section(
        "app's first instruction -> first answer; sidecar ready after 1 to 2 s, app after 0.5 s",
    );
    let held = first_answer(rig, Arm::Usher, effort);
    let serial = first_answer(rig, Arm::PilotAgent, effort);
    record.times("held by usher", &held);
    record.times("pilot-agent wait, then the app", &serial);
    let ratio = held.quantile_ms(0.50) / serial.quantile_ms(0.50);
    record.figure("p50, held / serial", ratio);
}

fn first_answer(rig: &mut Rig, arm: Arm, effort: &Effort) -> Sample {
    let client = Client::to(FAR).starting_for(APP);
    let pods = rig.pods(arm, &client, effort.pods);
    let step = Duration::from_secs(1) / u32::try_from(pods.len()).expect("a small number");
    let mut due = Instant::now() + SIDECAR;
    for pod in &pods {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        be_ready(pod, arm);
        due += step;
    }
    let mut sample = Sample::default();
    for pod in &pods {
        let result = pod.client_result("app");
        assert_eq!(result.failed, [], "a connection failed");
        for answered_ns in result.answered_ns {
            let took = answered_ns.saturating_sub(result.main_ns);
            sample.add(Duration::from_nanos(took));
        }
    }
    sample
}
