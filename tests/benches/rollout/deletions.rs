//! Pods that are deleted one by one. Their apps end at once.

use usher_tests::record::{Limit, Record, Sample};

use crate::{Effort, arm::Arm, place::Place, watch::Watch};

pub(crate) fn measure(record: &mut Record, place: &Place, effort: &Effort) {
    let mut rows: Vec<(Arm, Sample)> = Arm::deleted()
        .into_iter()
        .map(|arm| (arm, Sample::default()))
        .collect();
    for round in 0..effort.deletions {
        let arms: Vec<&Arm> = rows.iter().map(|(arm, _)| arm).collect();
        let pods = create(place, &arms, round);
        let watch = Watch::begin(place);
        // Each kind takes each position in the row.
        let all = rows.len();
        for number in (0..all).map(|number| (number + round) % all) {
            let (arm, sample) = &mut rows[number];
            let pod = &pods[number];
            let delete = ["-n", &place.namespace, "delete", "pod", pod, "--wait=false"];
            place.cluster.kubectl(&delete).unwrap();
            let took = watch.deletion(pod);
            println!("round {round}, {}: {took:.2?}", arm.title);
            sample.add(took);
        }
    }
    record.section("deletion of a pod -> it is gone, the app ends at once");
    rows.iter()
        .for_each(|(arm, sample)| record.times(&arm.title, sample));
    let medians: Vec<f64> = rows
        .iter()
        .map(|(_, sample)| sample.quantile_ms(0.5))
        .collect();
    let [usher, none, others @ ..] = &medians[..] else {
        return;
    };
    record.limit(
        "deletion.ratio",
        "usher / no sidecar, p50",
        usher / none,
        Limit::AtMost(1.1),
    );
    for ((arm, _), median) in rows.iter().skip(2).zip(others) {
        record.figure(&format!("{} / no sidecar, p50", arm.title), median / none);
    }
}

/// A ready pod of each kind; returns their names.
fn create(place: &Place, arms: &[&Arm], round: usize) -> Vec<String> {
    let name = |arm: &&Arm| format!("{}-{round}", arm.name);
    let names: Vec<String> = arms.iter().map(name).collect();
    for (arm, name) in arms.iter().zip(&names) {
        let pod = arm.pod(&place.namespace, name, arm.server());
        place.cluster.apply(&pod).unwrap();
    }
    wait_ready(place, &names);
    names
}

pub(crate) fn wait_ready(place: &Place, pods: &[String]) {
    let wait = ["-n", &place.namespace, "wait", "--for=condition=Ready"];
    let objects: Vec<String> = pods.iter().map(|pod| format!("pod/{pod}")).collect();
    let objects = objects.iter().map(String::as_str);
    let args = wait.into_iter().chain(["--timeout=180s"]).chain(objects);
    place.cluster.kubectl(&args.collect::<Vec<_>>()).unwrap();
}
