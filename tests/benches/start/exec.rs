//! The overhead for other programs on a marked file system: probes, hooks, `kubectl exec`.
//!
//! A container is marked while its start is held, so the programs are started in a held container and, in
//! turn, in a container of another pod that is not held.

use std::time::Duration;

use usher_cluster::crowd::Like;
use usher_tests::record::{Record, Sample};

use crate::{Effort, arm::Arm, place::Place};

/// Programs started one after the other in one turn.
const PROGRAMS: u32 = 1000;
/// Keeps the app of the other pod alive, almost idle.
const SLEEPER: &str = "60s";

pub(crate) fn measure(record: &mut Record, place: &Place, effort: &Effort) {
    let held = Arm::Usher.crowd(1).unwrap_or_default();
    let plain = Like {
        wrapper: Some(SLEEPER),
        ..Arm::Seldom.crowd(1).unwrap_or_default()
    };
    let crowds = [("exec-marked", held), ("exec-plain", plain)]
        .map(|(name, like)| place.crowd(name, 1, &like));
    let mut samples = [Sample::default(), Sample::default()];
    for _ in 0..effort.execs {
        for (crowd, sample) in crowds.iter().zip(&mut samples) {
            sample.add(each(place, &crowd.pods()[0]));
        }
    }
    record.section(&format!(
        "one fork and exec, of {PROGRAMS} in a row inside of a container"
    ));
    let [marked, unmarked] = &samples;
    record.times("marked (its start is held)", marked);
    record.times("not marked", unmarked);
    let more = marked.quantile_ms(0.5) - unmarked.quantile_ms(0.5);
    record.figure("p50, difference, ms", more);
}

/// The time of one program.
fn each(place: &Place, pod: &str) -> Duration {
    let programs = PROGRAMS.to_string();
    let exec = ["-n", &place.namespace, "exec", pod, "-c", "app-0", "--"];
    let spawn = ["/usher-test-app", "--spawn", &programs];
    let output = place
        .cluster
        .kubectl(&[&exec[..], &spawn].concat())
        .unwrap();
    let us = output.lines().find_map(|line| {
        let (_, us) = line.strip_prefix("app-spawned ")?.split_once("us=")?;
        us.parse().ok()
    });
    Duration::from_micros(us.unwrap()) / PROGRAMS
}
