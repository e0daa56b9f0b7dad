//! The actions of the kubelet and of users on a container with a held start.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use usher_cluster::{
    mesh::{NAMESPACE, Proxy, Variant},
    workload::add_shared_directory,
};

use super::{
    decided,
    rig::{self, Waiting},
    variant,
};
use crate::{
    lab::{self, Lab, Line, until},
    workload::{container, exit_code},
};

/// The permitted delay of one pod on a busy node. A held process that cannot be killed would run until the deadline of its hold.
const SLACK: Duration = Duration::from_secs(10);
/// The mount of the directory in which runs leave a trace.
const STATE: &str = "/state";

/// Succeeds, and adds one byte to the file.
fn leaves_a_trace(file: &str) -> Value {
    let path = format!("{STATE}/{file}");
    let command = ["/usher-test-app", "--fail-times", "0", "--state", &path];
    json!({ "command": command })
}

/// The number of runs that left a trace in this file.
fn traces(lab: &Lab, pod: &Value, file: &str) -> usize {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let volume = format!("var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/shared");
    let path = lab.cluster.node_root().unwrap().join(volume).join(file);
    fs::read(path).unwrap_or_default().len()
}

#[test]
fn hooks_probes_and_kubectl_exec_run_in_a_held_container() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let mut pod = rig::pod("inside", &variant(Proxy::Last));
    add_shared_directory(&mut pod["spec"], 0, STATE);
    let app = &mut pod["spec"]["containers"][0];
    app["lifecycle"] = json!({ "postStart": { "exec": leaves_a_trace("hook") } });
    app["livenessProbe"] = json!({
        "exec": leaves_a_trace("probe"),
        "periodSeconds": 1,
        "timeoutSeconds": 30,
        // usher assumes that the probe fails until the app runs, so the probe limits the hold.
        "failureThreshold": 600,
    });
    let mut waiting = Waiting::begin(&lab, &[pod]);
    waiting.held(0);
    let pod = waiting.pod();
    until("the hook and two probes", || {
        let done = traces(&lab, &pod, "hook") == 1 && traces(&lab, &pod, "probe") >= 2;
        done.then_some(())
    });
    let exec = ["-n", NAMESPACE, "exec", waiting.name(0), "-c", "app", "--"];
    let program = ["/usher-test-app", "--exit-code", "0"];
    let is_logged = lab.cluster.kubectl(&[&exec[..], &program].concat());
    assert!(is_logged.unwrap().contains("app-exit"));
    assert!(waiting.runs().is_empty(), "the app has not run yet");
    waiting.proceed();
    let run = waiting.ended();
    assert_eq!((run.answer, run.exit_code), (Ok(200), 0));
    assert_eq!(container(&waiting.pod(), "app")["restartCount"], 0);
}

/// The kubelet counts from the container's start. The probe may fail once; the second failure kills it, at the earliest 20 s after
/// the start. The limit leaves one period, in which a slow node has time to start the app.
#[test]
fn liveness_probe_limits_the_hold_and_is_logged_first() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let lasting = Variant {
        restart_policy: "OnFailure",
        args: vec!["--serve", "8080", "--run-for", "3s"],
        ..variant(Proxy::Last)
    };
    let mut pod = rig::pod("probed", &lasting);
    pod["spec"]["containers"][0]["livenessProbe"] = json!({
        "httpGet": { "path": "/", "port": 8080 },
        "timeoutSeconds": 10,
        "initialDelaySeconds": 11,
        "periodSeconds": 10,
        "failureThreshold": 2,
    });
    let mut waiting = Waiting::begin(&lab, &[pod]);
    let held = waiting.held(0);
    let armed = decided(&lab, waiting.name(0), "hold-armed");
    for line in [&held, &armed] {
        let is_logged = line.contains("for at most 10s") && line.contains("livenessProbe");
        assert!(is_logged, "{line}");
    }
    // istiod is away until the app runs, so the release has another reason than readiness.
    waiting.has_run();
    let reason = decided(&lab, waiting.name(0), "start-released");
    assert!(reason.contains("its limit has passed"), "{reason}");
    let pod = format!("{NAMESPACE}/{}", waiting.name(0));
    let lines = lab.log();
    let [held, armed, released] = ["start-held", "hold-armed", "start-released"].map(|decision| {
        let is_it = |line: &Line| line.text("pod") == pod && line.text("decision") == decision;
        lines.iter().position(is_it).unwrap()
    });
    assert!(held < released && armed < released, "they are logged first");
    waiting.proceed();
    let run = waiting.ended();
    assert_eq!((run.answer, run.exit_code), (Ok(200), 0));
    let pod = until("the pod's status", || {
        Some(waiting.pod()).filter(|pod| exit_code(pod, "app").is_number())
    });
    assert_eq!(*exit_code(&pod, "app"), 0);
    assert_eq!(container(&pod, "app")["restartCount"], 0);
}

#[test]
fn held_pod_is_deleted_without_delay() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let other = Variant {
        annotations: vec![("usher.dev/hold", "false"), ("usher.dev/quit", "false")],
        // The wrapper delays this app, not a hold.
        wrapper: Some("10s"),
        ..variant(Proxy::Last)
    };
    let pods = [
        rig::pod("deleted", &variant(Proxy::Last)),
        rig::pod("deleted-other", &other),
    ];
    let waiting = Waiting::begin(&lab, &pods);
    waiting.held(0);
    let runs = |name: &str| {
        let get = ["-n", NAMESPACE, "get", "pod", name];
        let pod = lab.cluster.kubectl_json(&get).ok()?;
        let both = ["app", "istio-proxy"];
        let runs = |name| container(&pod, name)["state"]["running"].is_object();
        both.into_iter().all(runs).then_some(())
    };
    for number in [0, 1] {
        until("both containers", || runs(waiting.name(number)));
    }
    let delete = |number: usize| {
        let before = Instant::now();
        let delete = ["-n", NAMESPACE, "delete", "pod", waiting.name(number)];
        lab.cluster.kubectl(&delete).unwrap();
        before.elapsed()
    };
    let (held, plain) = thread::scope(|scope| {
        let held = scope.spawn(|| delete(0));
        let plain = delete(1);
        (held.join().unwrap(), plain)
    });
    eprintln!("deleted after {held:?} held, {plain:?} not held");
    assert!(held < plain * 2 + SLACK, "{held:?} against {plain:?}");
}
