//! Apps that work on after their stop signal, and call a service through the mesh in that time.

use std::time::Duration;

use serde_json::Value;
use usher_cluster::{
    mesh::calling_app,
    podlog::{self, Calls, Follow},
};
use usher_tests::{
    record::{Limit, Record, Sample},
    wait::found_within,
};

use crate::{
    Effort, PATIENCE,
    arm::{Arm, PORT},
    armed,
    deletions::wait_ready,
    place::Place,
    watch::Watch,
};

const WORK: Duration = Duration::from_secs(10);
const SIDECAR: &str = "istio-proxy";

struct Row {
    arm: Arm,
    /// From the deletion of a pod until it is gone.
    times: Sample,
    sent: u32,
    failed: u32,
}

pub(crate) fn measure(record: &mut Record, place: &Place, effort: &Effort) {
    let rows: Vec<Row> = Arm::calling()
        .into_iter()
        .map(|arm| run(place, arm, effort.callers))
        .collect();
    let (pods, work) = (effort.callers, WORK.as_secs());
    record.section(&format!(
        "deletion of a pod -> it is gone, {pods} pods at once; the app works for {work} s and calls the mesh ten times a second"
    ));
    rows.iter()
        .for_each(|row| record.times(&row.arm.title, &row.times));
    let plain = &rows[0];
    for row in &rows {
        let what = format!("{}: failed of {}, calls", row.arm.title, row.sent);
        let failed = row.failed.into();
        if row.arm.is_managed {
            record
                .limit("rollout.calls", &what, failed, Limit::AtMost(0.0))
                .against(&plain.arm.title, plain.failed.into());
        } else {
            record.figure(&what, failed);
        }
    }
}

fn run(place: &Place, arm: Arm, count: usize) -> Row {
    let name = |number| format!("calls-{}-{number}", arm.name);
    let names: Vec<String> = (0..count).map(name).collect();
    for name in &names {
        let pod = arm.pod(&place.namespace, name, calling_app(PORT, WORK));
        place.cluster.apply(&pod).unwrap();
    }
    wait_ready(place, &names);
    names.iter().for_each(|name| wait_called(place, name));
    if arm.is_managed {
        wait_armed(place, &names);
    }
    let watch = Watch::begin(place);
    let follow = |name: &String| Follow::begin(&place.cluster, &place.namespace, name, "app");
    let logs: Vec<Follow> = names.iter().map(|name| follow(name).unwrap()).collect();
    let delete = ["-n", &place.namespace, "delete", "pod", "--wait=false"];
    let pods = names.iter().map(String::as_str);
    place
        .cluster
        .kubectl(&delete.into_iter().chain(pods).collect::<Vec<_>>())
        .unwrap();
    let mut times = Sample::default();
    let took = watch.deletions(&names);
    took.values().for_each(|took| times.add(*took));
    let (mut sent, mut failed) = (0, 0);
    for (name, log) in names.iter().zip(logs) {
        let calls = calls(log);
        println!("{name}: {calls:?}, gone after {:.2?}", took[name]);
        sent += calls.sent;
        failed += calls.failed;
    }
    println!("{}: {failed} of {sent} calls failed", arm.title);
    Row {
        arm,
        times,
        sent,
        failed,
    }
}

fn calls(log: Follow) -> Calls {
    let log = log.end().unwrap();
    podlog::calls(&log).unwrap_or_else(|| panic!("the app did not report its calls: {log}"))
}

/// The app has reached the mesh once: from then on it waits for its stop signal.
fn wait_called(place: &Place, pod: &str) {
    let logs = ["-n", &place.namespace, "logs", pod, "-c", "app"];
    found_within(PATIENCE, &format!("a reply to {pod}"), || {
        let log = place.cluster.kubectl(&logs).ok()?;
        log.contains("status=200").then_some(())
    });
}

/// The holder has armed each sidecar.
fn wait_armed(place: &Place, pods: &[String]) {
    let get = ["-n", &place.namespace, "get", "pods"];
    let list = place.cluster.kubectl_json(&get).unwrap();
    let items = list["items"].as_array().unwrap();
    let ours = items.iter().filter(|pod| {
        let name = pod["metadata"]["name"].as_str();
        pods.iter().any(|one| Some(one.as_str()) == name)
    });
    let ids: Vec<&str> = ours.map(sidecar_id).collect();
    armed::wait(place, &ids);
}

fn sidecar_id(pod: &Value) -> &str {
    let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
    let sidecar = statuses.iter().find(|status| status["name"] == SIDECAR);
    let id = sidecar.unwrap()["containerID"].as_str().unwrap();
    id.trim_start_matches("containerd://")
}
