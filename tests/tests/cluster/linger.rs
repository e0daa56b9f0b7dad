//! Sidecars of deleted pods that outlive their apps: the real Istio sidecar in the mesh, and containers of the test app.

mod crowd;
mod observed;
mod open_connection;
mod second_deletion;

use std::{
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use usher_cluster::{
    mesh,
    podlog::{self, Follow},
    workload::{self, app_container},
};

use crate::{
    lab::{self, Lab, Shared, until},
    restarts::time_of,
    workload::{container_runs, pod, runs},
};

/// How long the app works after its SIGTERM. pilot-agent drains for 5 s and ends.
const WORK: Duration = Duration::from_secs(10);
/// Far longer than these pods take to end on a slow node.
const GRACE: Duration = Duration::from_secs(60);
/// Calls take longer on a slow node; the normal number is ten a second.
const LEAST_CALLS: u32 = 20;
const SIDECAR: &str = "istio-proxy";

/// A pod that is being deleted.
struct Deletion {
    begun: Instant,
    delete: Child,
    /// The app's output.
    log: Follow,
}

impl Deletion {
    fn begin(lab: &Lab, namespace: &str) -> Self {
        let delete = ["-n", namespace, "delete", "pod", "pod"];
        let log = Follow::begin(&lab.cluster, namespace, "pod", "app").unwrap();
        Self {
            begun: Instant::now(),
            delete: kubectl(lab, &delete),
            log,
        }
    }

    /// Waits until the pod is gone. Returns the duration, and the app's log.
    fn end(mut self) -> (Duration, String) {
        assert!(self.delete.wait().unwrap().success());
        let took = self.begun.elapsed();
        (took, self.log.end().unwrap())
    }
}

fn kubectl(lab: &Lab, args: &[&str]) -> Child {
    let mut command = lab.cluster.kubectl_command();
    command.args(args).stdout(Stdio::piped()).spawn().unwrap()
}

/// A pod of an app that works after its SIGTERM, and Istio's sidecar from the real injector.
fn meshed_pod(namespace: &str, annotations: &[(&str, &str)]) -> Value {
    let app = mesh::calling_app(8000, WORK);
    let mut pod = workload::pod("pod", namespace, "Always", &[app]);
    pod["metadata"]["labels"]["sidecar.istio.io/inject"] = json!("true");
    pod["metadata"]["annotations"] = json!({ "sidecar.istio.io/nativeSidecar": "false" });
    with(pod, GRACE, annotations)
}

fn with(mut pod: Value, grace: Duration, annotations: &[(&str, &str)]) -> Value {
    pod["spec"]["terminationGracePeriodSeconds"] = json!(grace.as_secs());
    for (key, value) in annotations {
        pod["metadata"]["annotations"][*key] = json!(value);
    }
    pod
}

/// Creates the pod, and waits until its app has a reply through the mesh.
fn run_meshed(lab: &Lab, namespace: &str, annotations: &[(&str, &str)]) {
    lab.cluster
        .apply(&meshed_pod(namespace, annotations))
        .unwrap();
    container_runs(lab, namespace, SIDECAR);
    wait_log(lab, namespace, "status=200");
}

fn wait_log(lab: &Lab, namespace: &str, text: &str) {
    let logs = ["-n", namespace, "logs", "pod", "-c", "app"];
    until(text, || {
        let log = lab.cluster.kubectl(&logs).ok()?;
        log.contains(text).then_some(())
    });
}

/// The number of calls in the app's log, and of those that failed.
fn calls(log: &str) -> (u32, u32) {
    let calls = podlog::calls(log).unwrap();
    (calls.sent, calls.failed)
}

#[test]
fn app_reaches_the_mesh_until_its_end() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let lingers = lab.namespace("linger");
    let plain = lab.namespace("linger-not-requested");
    run_meshed(&lab, &lingers, &[("usher.dev/linger", "true")]);
    run_meshed(&lab, &plain, &[]);
    wait_armed(&lab, &lingers);
    let ip = pod_ip(&lab, &lingers);
    assert!(!closes_inbound(&lab, &ip));
    let deletions = [&*lingers, &*plain].map(|namespace| Deletion::begin(&lab, namespace));
    lab.decided(&lingers, "linger-held");
    let drained = lab.decided(&lingers, "linger-drained");
    let reason = drained.text("reason");
    assert!(
        reason.starts_with("POST :15020/drain was accepted"),
        "{reason}"
    );
    assert!(closes_inbound(&lab, &ip));
    // containerd runs one command for a container at a time.
    let exec = exec(&lab, &lingers);
    let [(took, log), (plain_took, plain_log)] = deletions.map(Deletion::end);

    let (sent, failed) = calls(&log);
    let (plain_sent, plain_failed) = calls(&plain_log);
    eprintln!(
        "failed with linger: {failed} of {sent} in {took:?}; without: {plain_failed} of {plain_sent} in {plain_took:?}"
    );
    assert!(sent >= LEAST_CALLS, "{log}");
    assert_eq!(failed, 0, "{log}");
    assert!(plain_failed > 0, "{plain_log}");
    assert!(took < GRACE, "{took:?}");
    let released = lab.decided(&lingers, "linger-released");
    let reason = released.text("reason");
    assert!(reason.starts_with("no app of the pod runs"), "{reason}");
    let released_at = unix_ns(released.text("timestamp"));
    let exited_at = podlog::last_value(&log, "app-exit", "unix_ns").unwrap();
    assert!(released_at > exited_at);
    for decision in ["linger-held", "linger-released"] {
        assert_eq!(lab.count(&plain, decision), 0);
    }
    // Documented: it waits with the stop signal, or fails.
    let executed_at = exec.join().unwrap();
    assert!(executed_at.is_none_or(|at| at > exited_at));
}

/// The address of the only pod of a namespace.
fn pod_ip(lab: &Lab, namespace: &str) -> String {
    let pod = pod(lab, namespace).unwrap();
    pod["status"]["podIP"].as_str().unwrap().to_owned()
}

/// Whether the proxy of a pod closes an inbound connection with its reply.
fn closes_inbound(lab: &Lab, ip: &str) -> bool {
    let script = format!(
        "exec 3<>/dev/tcp/{ip}/8000; printf 'GET / HTTP/1.1\\r\\nhost: app\\r\\n\\r\\n' >&3; \
         while read -r line <&3; do echo \"$line\"; [ \"$line\" = $'\\r' ] && break; done"
    );
    let mut bash = lab.cluster.node_command("bash").unwrap();
    let output = bash.args(["-c", &script]).output().unwrap();
    let head = String::from_utf8(output.stdout).unwrap().to_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    head.contains("connection: close")
}

/// The time at which `kubectl exec` into the sidecar has succeeded.
fn exec(lab: &Lab, namespace: &str) -> thread::JoinHandle<Option<i128>> {
    let args = ["-n", namespace, "exec", "pod", "-c", SIDECAR];
    let command = ["--", "pilot-agent", "version"];
    let mut child = kubectl(lab, &[&args[..], &command].concat());
    thread::spawn(move || {
        let status = child.wait().unwrap();
        status
            .success()
            .then(|| jiff::Timestamp::now().as_nanosecond())
    })
}

fn unix_ns(timestamp: &str) -> i128 {
    let at: jiff::Timestamp = timestamp.parse().unwrap();
    at.as_nanosecond()
}

/// Waits until the holder has armed the sidecar of the only pod of a namespace, or its app without one.
fn wait_armed(lab: &Lab, namespace: &str) {
    let pod = pod(lab, namespace).unwrap();
    let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
    let sidecar = statuses.iter().find(|one| one["name"] != "app");
    let armed = sidecar.unwrap_or(&statuses[0]);
    let id = armed["containerID"].as_str().unwrap();
    let id = id.trim_start_matches("containerd://");
    until("an armed sidecar", || {
        let is_armed = |line: &lab::Line| {
            line.text("message").starts_with("armed:") && line.text("container_id") == id
        };
        lab.log().iter().any(is_armed).then_some(())
    });
}

/// A pod of a test app as its sidecar, which the annotation names.
fn run_declared(lab: &Shared, namespace: &str, grace: Duration, app: &[&str], sidecar: Value) {
    let containers = [app_container("app", app), sidecar];
    let pod = workload::pod("pod", namespace, "Always", &containers);
    let annotations = [("usher.dev/linger", "true"), ("usher.dev/sidecars", "side")];
    lab.cluster.apply(&with(pod, grace, &annotations)).unwrap();
    container_runs(lab, namespace, "app");
    container_runs(lab, namespace, "side");
}

/// A liveness restart: its stop signal waits for the kubelet's list only.
#[test]
fn liveness_restart_of_the_sidecar_is_not_held() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("linger-liveness");
    let mut sidecar = app_container("side", &["--listen", "9000"]);
    // No process listens at this port.
    sidecar["livenessProbe"] = json!({
        "tcpSocket": { "port": 9001 },
        "initialDelaySeconds": 5,
        "periodSeconds": 1,
        "failureThreshold": 1,
    });
    run_declared(&lab, &namespace, GRACE, &["--listen", "8080"], sidecar);
    until("the restart of the sidecar", || {
        (runs(&pod(&lab, &namespace)?, "side") > 1).then_some(())
    });
    let released = lab.decided(&namespace, "linger-released");
    let reason = released.text("reason");
    assert!(
        reason.starts_with("the pod is not being deleted")
            || reason.starts_with("the kubelet did not confirm"),
        "{reason}"
    );
}

/// The runtime would wait for the whole grace period once more, from the release on. The app ends long before the agent has to
/// release the signal for the rest of the grace period, and long enough after the deletion to tell one deadline from the other.
#[test]
fn sidecar_that_ignores_its_signal_ends_with_the_grace_period() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = lab.namespace("linger-ignored");
    let (grace, slack) = (Duration::from_secs(20), Duration::from_secs(5));
    let app: Vec<&str> = "--listen 8080 --term-delay 7s --term-code 0"
        .split_whitespace()
        .collect();
    let sidecar = app_container("side", &["--listen", "9000", "--ignore-term"]);
    run_declared(&lab, &namespace, grace, &app, sidecar);
    wait_armed(&lab, &namespace);
    let (took, _log) = Deletion::begin(&lab, &namespace).end();
    let released = lab.decided(&namespace, "linger-released");
    let reason = released.text("reason");
    assert!(reason.starts_with("no app of the pod runs"), "{reason}");
    assert!(grace < took, "{took:?}");
    // By the agent's clock: the kubelet may take its time for the rest of the deletion.
    let [held, killed] = ["linger-held", "linger-killed"].map(|decision| {
        let line = lab.decided(&namespace, decision);
        time_of(line.text("timestamp"))
    });
    assert!(killed - held < grace + slack, "{held:?} {killed:?}");
}

/// As `preStop: sleep 5`, in an image without `sleep`. The app has no sidecar.
#[test]
fn stop_signal_of_an_app_waits_for_its_pre_stop_time() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let delay = Duration::from_secs(5);
    let deletion = |namespace: &str, annotations: &[(&str, &str)]| {
        let args = [
            "--listen",
            "8080",
            "--term-delay",
            "1ms",
            "--term-code",
            "0",
        ];
        let containers = [app_container("app", &args)];
        let pod = workload::pod("pod", namespace, "Always", &containers);
        lab.cluster.apply(&with(pod, GRACE, annotations)).unwrap();
        container_runs(&lab, namespace, "app");
        if !annotations.is_empty() {
            wait_armed(&lab, namespace);
        }
        Deletion::begin(&lab, namespace).end()
    };
    let delayed = lab.namespace("pre-stop");
    let plain = lab.namespace("pre-stop-not-requested");
    let (took, _log) = deletion(&delayed, &[("usher.dev/pre-stop", "5s")]);
    let (plain_took, _log) = deletion(&plain, &[]);
    eprintln!("deleted with a pre-stop time in {took:?}, without it in {plain_took:?}");
    assert!(delay < took && took < GRACE, "{took:?}");
    let released = lab.decided(&delayed, "pre-stop-released");
    let reason = released.text("reason");
    assert!(
        reason.starts_with("its pre-stop time has passed"),
        "{reason}"
    );
    assert_eq!(lab.count(&plain, "pre-stop-held"), 0);
}

/// A client calls the app for longer than the least time. The kubelet probes the app all the time, which does not count.
#[test]
fn stop_signal_of_an_app_waits_while_a_client_calls() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let called = lab.namespace("pre-stop-auto");
    let calling = lab.namespace("pre-stop-client");
    let run = |namespace: &str, app: Value, annotations: &[(&str, &str)]| {
        let pod = workload::pod("pod", namespace, "Always", &[app]);
        lab.cluster.apply(&with(pod, GRACE, annotations)).unwrap();
        container_runs(&lab, namespace, "app")
    };
    let args = ["--serve", "8080", "--term-delay", "1ms", "--term-code", "0"];
    let mut app = app_container("app", &args);
    app["readinessProbe"] = json!({ "httpGet": { "port": 8080 }, "periodSeconds": 1 });
    let server = run(&called, app, &[("usher.dev/pre-stop", "auto")]);
    wait_armed(&lab, &called);
    let to = format!("{}:8080", server["status"]["podIP"].as_str().unwrap());
    let delay = format!("{}s", WORK.as_secs());
    let args = [
        "--call-after-term",
        &to,
        "--term-delay",
        &delay,
        "--term-code",
        "0",
    ];
    run(&calling, app_container("app", &args), &[]);

    // The client calls from its own SIGTERM on.
    let client = Deletion::begin(&lab, &calling);
    wait_log(&lab, &calling, "app-term");
    let server = Deletion::begin(&lab, &called);
    let [(_took, log), (took, _log)] = [client, server].map(Deletion::end);
    let (sent, failed) = calls(&log);
    eprintln!("failed: {failed} of {sent} calls to an app that is deleted, in {took:?}");
    assert!(sent >= LEAST_CALLS, "{log}");
    assert_eq!(failed, 0, "{log}");
    assert!(took < GRACE, "{took:?}");
    let released = lab.decided(&called, "pre-stop-released");
    let released_at = unix_ns(released.text("timestamp"));
    assert!(Some(released_at) > podlog::last_value(&log, "app-calls", "unix_ns"));
    let reason = released.text("reason");
    assert!(
        reason.starts_with("clients have sent nothing for 2s"),
        "{reason}"
    );
}
