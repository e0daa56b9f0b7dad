//! `usher explain` by `kubectl exec`, on pods of a real Istio mesh that are broken in different ways.
//!
//! The node is in observe mode, so that a broken pod stays broken. A volume provides the shell, which Istio's own image
//! lacks; a silent metadata server requires a network with a route.

use std::{collections::BTreeMap, thread};

use serde_json::{Value, json};
use usher_cluster::{mesh::PEER, workload::app_container};

use crate::{
    lab::{self, Lab, USHER, until},
    workload::sidecar_is_untouched,
};

const PROXY: &str = "istio-proxy";
/// The proxy's command in its template.
const PILOT_AGENT: &str =
    "/usr/local/bin/pilot-agent proxy sidecar --domain mesh.svc.cluster.local; true";

/// The output of `usher explain` for a pod, and its exit code.
pub(crate) fn explain(lab: &Lab, pod: &str, more: &[&str]) -> (String, Option<i32>) {
    exec_usher(lab, &[&["explain", pod], more].concat())
}

/// The output of `usher` in the agent's container, and its exit code.
pub(crate) fn exec_usher(lab: &Lab, words: &[&str]) -> (String, Option<i32>) {
    let exec = [
        "-n",
        USHER,
        "exec",
        "daemonset/usher",
        "-c",
        "agent",
        "--",
        "/usher",
    ];
    let ran = lab
        .cluster
        .kubectl_command()
        .args([&exec[..], words].concat())
        .output();
    let ran = ran.unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    (text, ran.status.code())
}

fn findings(lab: &Lab, pod: &str) -> Option<Vec<Value>> {
    let (text, _code) = explain(lab, pod, &["-o", "json"]);
    let explanation: Value = serde_json::from_str(&text).ok()?;
    explanation["findings"].as_array().cloned()
}

fn is_trouble(finding: &Value) -> bool {
    finding["severity"] != "hint"
}

/// One broken pod.
struct Broken {
    name: &'static str,
    finding: &'static str,
    /// In its evidence or its next step.
    words: &'static [&'static str],
    pod: Value,
}

/// A pod in the mesh, with its proxy as a regular container.
fn pod(namespace: &str, name: &str, policy: &str, containers: &[Value]) -> Value {
    let mut pod = usher_cluster::workload::pod(name, namespace, policy, containers);
    pod["metadata"]["labels"]["sidecar.istio.io/inject"] = json!("true");
    pod["metadata"]["annotations"] = json!({"sidecar.istio.io/nativeSidecar": "false"});
    pod
}

fn annotated(mut pod: Value, key: &str, value: &str) -> Value {
    pod["metadata"]["annotations"][key] = json!(value);
    pod
}

/// A proxy with fields of its own that the injector completes.
fn own_proxy(fields: Value) -> Value {
    let mut proxy = json!({"name": PROXY, "image": "auto", "imagePullPolicy": "Never"});
    if let (Some(proxy), Value::Object(fields)) = (proxy.as_object_mut(), fields) {
        proxy.extend(fields);
    }
    proxy
}

fn long_app(more: Value) -> Value {
    let mut app = app_container("app", &["--run-for", "600s"]);
    if let (Some(app), Value::Object(more)) = (app.as_object_mut(), more) {
        app.extend(more);
    }
    app
}

fn broken(namespace: &str) -> Vec<Broken> {
    let pod = |name, policy, containers: &[Value]| pod(namespace, name, policy, containers);
    let asks = app_container("app", &["--get", PEER, "--run-for", "600s"]);
    let hook =
        json!({"lifecycle": {"postStart": {"exec": {"command": ["pilot-agent", "version"]}}}});
    let held = pod("lost", "Always", &[long_app(json!({})), own_proxy(hook)]);
    let ports = json!({"ports": [{"name": "http-db", "containerPort": 3306}]});
    let mut serves = app_container("app", &["--serve", "8000", "--run-for", "600s"]);
    serves["readinessProbe"] = json!({"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1});
    let served = pod("probed", "Always", &[serves]);
    let shell = own_proxy(json!({
        "command": ["/bin/sh", "-c"], "args": [PILOT_AGENT],
        "volumeMounts": [{"name": "shell", "mountPath": "/bin/sh"}],
    }));
    let mut below = pod("below-a-shell", "Always", &[long_app(json!({})), shell]);
    below["spec"]["volumes"] =
        json!([{"name": "shell", "hostPath": {"path": "/bin/dash", "type": "File"}}]);
    let mut late = pod("late", "Never", &[long_app(json!({}))]);
    late["spec"]["activeDeadlineSeconds"] = json!(20);
    let brief = || app_container("app", &["--run-for", "3s"]);
    vec![
        Broken {
            name: "early",
            finding: "started-before-proxy",
            words: &["exit code 1", "usher.dev/hold=enforce"],
            pod: pod("early", "Always", &[asks]),
        },
        Broken {
            name: "lost",
            finding: "hold-lost",
            words: &["pilot-agent version", "lifecycle.postStart"],
            pod: annotated(
                held,
                "proxy.istio.io/config",
                "holdApplicationUntilProxyStarts: true",
            ),
        },
        Broken {
            name: "ports",
            finding: "port-name",
            words: &["tcp-mysql"],
            pod: pod("ports", "Always", &[long_app(ports)]),
        },
        Broken {
            name: "probed",
            finding: "probe-lost",
            words: &["readinessProbe.httpGet.port", "rewriteAppHTTPProbers"],
            pod: annotated(served, "sidecar.istio.io/rewriteAppHTTPProbers", "false"),
        },
        Broken {
            name: "below-a-shell",
            finding: "shell-is-pid-1",
            words: &["SigCgt has no SIGTERM", "pilot-agent"],
            pod: below,
        },
        Broken {
            name: "late",
            finding: "deadline-near",
            words: &["activeDeadlineSeconds"],
            pod: late,
        },
        Broken {
            name: "stuck",
            finding: "sidecar-stays",
            words: &["exit code 0", "would-quit", "usher.dev/quit=enforce"],
            pod: pod("stuck", "Never", &[brief()]),
        },
    ]
}

#[test]
fn each_broken_pod_has_exactly_its_finding() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let lab: &Lab = &lab;
    lab.mode("observe");
    let own = meshed(lab, "explained");
    let namespace: &str = &own;
    let broken = broken(namespace);
    let report = thread::scope(|scope| {
        let look = |broken: &Broken| {
            lab.cluster.apply(&broken.pod).unwrap();
            let pod = format!("{namespace}/{}", broken.name);
            // The kernel reports the exit of a failed app before the kubelet reports its exit code.
            let what = format!("{} with {:?} about {pod}", broken.finding, broken.words);
            let found = until(&what, || {
                let found = findings(lab, &pod)?;
                let text = serde_json::to_string(&found).unwrap();
                let is_whole = broken.words.iter().all(|word| text.contains(word));
                (is_whole && found.iter().any(is_trouble)).then_some(found)
            });
            (broken.name, found)
        };
        let running: Vec<_> = broken
            .iter()
            .map(|one| scope.spawn(move || look(one)))
            .collect();
        let all = running.into_iter().map(|one| one.join().unwrap());
        all.collect::<BTreeMap<_, _>>()
    });
    for Broken { name, finding, .. } in &broken {
        let found = &report[name];
        let troubles: Vec<&str> = found
            .iter()
            .filter(|one| is_trouble(one))
            .filter_map(|one| one["id"].as_str())
            .collect();
        eprintln!("{name}: {troubles:?}");
        assert_eq!(troubles, [*finding], "{name}: {found:#?}");
    }
    exit_code_that_fails_the_pod(lab, namespace);
}

/// A sidecar that is killed after its app has succeeded; the node has no cgroup of its pod any more then.
fn exit_code_that_fails_the_pod(lab: &Lab, namespace: &str) {
    let stuck = ["-n", namespace, "get", "pod", "stuck"];
    assert!(sidecar_is_untouched(
        &lab.cluster.kubectl_json(&stuck).unwrap()
    ));
    let (text, _code) = explain(lab, &format!("{namespace}/stuck"), &["-o", "json"]);
    let explanation: Value = serde_json::from_str(&text).unwrap();
    let containers = explanation["containers"].as_array().unwrap();
    let proxy = containers.iter().find(|one| one["name"] == PROXY).unwrap();
    let pid = proxy["pid"].to_string();
    lab.cluster.in_node(&["kill", "-KILL", &pid]).unwrap();
    let found = until("the sidecar's exit code", || {
        let found = findings(lab, &format!("{namespace}/stuck"))?;
        found
            .iter()
            .any(|one| one["id"] == "nonzero-exit-code")
            .then_some(found)
    });
    let troubles: Vec<&Value> = found.iter().filter(|one| is_trouble(one)).collect();
    assert_eq!(troubles.len(), 1, "{found:#?}");
    assert!(
        troubles[0].to_string().contains("exitCode 137"),
        "{found:#?}"
    );
}

#[test]
fn healthy_pods_and_native_sidecar_advice() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let own = meshed(&lab, "explained-well");
    let namespace: &str = &own;
    let mut native = pod(namespace, "native", "Always", &[long_app(json!({}))]);
    native["metadata"]["annotations"] = json!({});
    lab.cluster.apply(&native).unwrap();
    lab.cluster
        .apply(&pod(namespace, "classic", "Always", &[long_app(json!({}))]))
        .unwrap();
    let well = |name: &str| {
        let pod = format!("{namespace}/{name}");
        until(&format!("{pod} to be well"), || {
            let (text, code) = explain(&lab, &pod, &[]);
            let ready = text.contains("sidecar istio-proxy is ready");
            (ready && code == Some(0)).then_some(text)
        })
    };
    let native = well("native");
    assert_eq!(native.lines().count(), 1, "{native}");
    assert!(
        native.contains(": healthy; app app has been running for "),
        "{native}"
    );
    let classic = well("classic");
    assert!(classic.contains("hint: "), "{classic}");
    assert!(
        classic.contains("native sidecars from 1.29 on"),
        "{classic}"
    );
    assert!(classic.contains("kubelet: version 1."), "{classic}");
}

/// A namespace with injected proxies and strict mTLS.
fn meshed(lab: &'static Lab, test: &str) -> lab::Namespace {
    let namespace = lab.namespace(test);
    let label = ["label", "namespace", &namespace, "istio-injection=enabled"];
    lab.cluster.kubectl(&label).unwrap();
    let strict = json!({
        "apiVersion": "security.istio.io/v1",
        "kind": "PeerAuthentication",
        "metadata": {"name": "default", "namespace": &*namespace},
        "spec": {"mtls": {"mode": "STRICT"}},
    });
    lab.cluster.apply(&strict).unwrap();
    namespace
}
