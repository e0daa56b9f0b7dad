//! `usher explain`: broken pods, one for each finding, and a healthy one.

mod network;

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use usher_tests::privilege;
use usher_tests::synthetic::catalog::{StandIn, cloud_sql, istio, linkerd, mesh, vault};
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::{
    Answer, Client, Effect, Listen, Listener, Program, Route, Sidecar,
};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec, RestartPolicy};
use usher_tests::wait::{found_within, patience};

use crate::run;

/// A node in observe mode, so that a broken pod stays broken.
fn observing() -> Option<Node> {
    let node = privilege::granted().then(Node::new)?;
    node.annotate(&[("usher.dev/mode", "observe")]);
    node.kubelet().lag(Duration::ZERO);
    Some(node)
}

/// The output of `explain` for a pod, and its exit code.
fn explain(node: &Node, pod: &Pod) -> (Value, Option<i32>) {
    let ran = run(node, &["explain", &pod.name(), "-o", "json"]);
    let report = serde_json::from_str(&ran.stdout);
    (
        report.unwrap_or_else(|error| panic!("{error}: {ran:?}")),
        ran.code,
    )
}

fn ids(explanation: &Value) -> Vec<&str> {
    let findings = explanation["findings"].as_array().unwrap();
    let troubles = findings
        .iter()
        .filter(|finding| finding["severity"] != "hint");
    troubles
        .map(|finding| finding["id"].as_str().unwrap())
        .collect()
}

/// Waits until this is the only finding, with these words in its evidence.
fn finds(node: &Node, pod: &Pod, id: &str, words: &[&str]) {
    let (explanation, code) = found_within(patience(), id, || {
        let found = explain(node, pod);
        (!ids(&found.0).is_empty()).then_some(found)
    });
    assert_eq!(ids(&explanation), [id], "{explanation:#}");
    assert_eq!(code, Some(1));
    let text = explanation["findings"].to_string();
    for word in words {
        assert!(text.contains(word), "{word} in {explanation:#}");
    }
    let shown = run(node, &["explain", &pod.name()]);
    let first = shown.stdout.lines().next().unwrap_or_default();
    assert!(first.contains(": 1 problem; "), "{}", shown.stdout);
    assert!(
        shown.stdout.contains(&format!("usher help {id}")),
        "{}",
        shown.stdout
    );
}

/// An app alongside Istio's proxy, with a field of its own.
fn beside_istio(name: &str, app: ContainerSpec) -> PodSpec {
    PodSpec::new(name).with(app).with(istio::v1_26().container)
}

#[test]
fn healthy_pod_is_one_line() {
    let Some(node) = observing() else { return };
    let pod = node.run(&PodSpec::job("well"));
    let name = pod.name();
    let ran = run(&node, &["explain", &name]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let expected = format!("{name}: healthy; app app has been running for ");
    assert!(ran.stdout.starts_with(&expected), "{}", ran.stdout);
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    let wide = run(&node, &["explain", &name, "-o", "wide"]);
    for words in [
        "istio-proxy: sidecar (istio), running for",
        "timeline",
        "quit: observe",
        "what would change this",
    ] {
        assert!(wide.stdout.contains(words), "{words} in {}", wide.stdout);
    }
    assert_eq!(run(&node, &["explain", "absent"]).code, Some(4));
}

#[test]
fn expired_certificate_of_the_proxy() {
    let Some(node) = observing() else { return };
    let certs = json!({"certificates": [{"cert_chain": [{
        "subject_alt_names": [{"uri": "spiffe://cluster.local/ns/shop/sa/default"}],
        "valid_from": "2020-01-01T00:00:00Z",
        "expiration_time": "2020-01-02T00:00:00Z",
    }]}]});
    let route = Route::path("/certs", Answer::Json(certs.to_string()), Effect::Stay);
    let sidecar = Sidecar {
        listeners: vec![Listener::new(15_000, vec![route])],
        ..Sidecar::default()
    };
    let image = "registry.example/istio/proxyv2:1.26.2";
    let proxy = ContainerSpec::sidecar("istio-proxy", image, sidecar).args(&["proxy", "sidecar"]);
    let pod = node.run(
        &PodSpec::new("expired")
            .with(ContainerSpec::app("app"))
            .with(proxy),
    );
    let words = ["2020-01-02T00:00:00Z", "spiffe://cluster.local", "/certs"];
    finds(&node, &pod, "certificate-expires", &words);
}

#[test]
fn app_that_ran_before_its_proxy() {
    let Some(node) = observing() else { return };
    let app = ContainerSpec::brief_app("app", Duration::ZERO, 1);
    let spec = PodSpec::new("early").policy(RestartPolicy::OnFailure);
    let pod = node.run(&spec.with(app).with(mesh::proxy(Listen::AtOnce)));
    pod.ended("app");
    let words = [
        "exit code 1",
        "usher.dev/hold=enforce",
        "the app comes first in the spec",
    ];
    finds(&node, &pod, "started-before-proxy", &words);
}

#[test]
fn lost_hold() {
    let Some(node) = observing() else { return };
    let hook = json!({"postStart": {"exec": {"command": ["/bin/true"]}}});
    let proxy = istio::v1_26().container.field("lifecycle", hook);
    let spec = PodSpec::new("lost")
        .with(proxy)
        .with(ContainerSpec::app("app"));
    let wanted = "holdApplicationUntilProxyStarts: true";
    let pod = node.run(&spec.annotation("proxy.istio.io/config", wanted));
    finds(
        &node,
        &pod,
        "hold-lost",
        &["/bin/true", "spec.containers[0].lifecycle.postStart"],
    );
}

#[test]
fn misleading_port_name() {
    let Some(node) = observing() else { return };
    let ports = json!([{"name": "http-db", "containerPort": 3306}]);
    let pod = node.run(&beside_istio(
        "ports",
        ContainerSpec::app("app").field("ports", ports),
    ));
    finds(
        &node,
        &pod,
        "port-name",
        &["tcp-mysql", "spec.containers[0].ports[3306].name"],
    );
}

#[test]
fn probe_injected_twice() {
    let Some(node) = observing() else { return };
    let probe =
        json!({"httpGet": {"path": "/app-health/app/readyz", "port": 15020}, "periodSeconds": 1});
    let app = ContainerSpec::app("app")
        .field("readinessProbe", probe)
        .unready();
    let pod = node.run(&beside_istio("probe", app));
    finds(
        &node,
        &pod,
        "probe-lost",
        &["/app-health/app/readyz", "ISTIO_KUBE_APP_PROBERS"],
    );
}

#[test]
fn shell_that_swallows_signals() {
    let Some(node) = observing() else { return };
    let shell = vault::below_a_shell();
    let shell = StandIn {
        annotations: vec![("vault.hashicorp.com/agent-enable-quit", "true")],
        ..shell
    };
    let pod = node.run(&shell.job("shell"));
    finds(
        &node,
        &pod,
        "shell-is-pid-1",
        &["SigCgt has no SIGTERM", "pid 1 of its namespace"],
    );
}

#[test]
fn disabled_quit_endpoint() {
    let Some(node) = observing() else { return };
    let pod = node.run(&cloud_sql::v2().job("sql"));
    finds(
        &node,
        &pod,
        "quit-endpoint-off",
        &["no --quitquitquit", "socket :9091"],
    );
}

#[test]
fn exit_code_that_fails_the_pod() {
    let Some(node) = observing() else { return };
    let pod = node.run(&cloud_sql::v2().job("failing"));
    let name = cloud_sql::v2().container.name;
    pod.finish("app", 0);
    pod.ended("app");
    pod.signal(&name, nix::sys::signal::Signal::SIGTERM);
    pod.ended(&name);
    finds(
        &node,
        &pod,
        "nonzero-exit-code",
        &["exitCode 143", "Job", "--exit-zero-on-sigterm"],
    );
}

#[test]
fn proxy_waiting_for_metadata() {
    let Some(node) = observing() else { return };
    let client = Client::to("169.254.169.254:80").staying();
    let proxy = istio::v1_26().container;
    let asks = ContainerSpec {
        program: Program::Client(client),
        ..proxy
    };
    let mut spec = PodSpec::new("cloud")
        .with(ContainerSpec::app("app"))
        .with(asks.user(1337));
    spec.routed = true;
    // Without this rule the kernel would end the connection after three seconds, when no neighbour has replied.
    let hook = "type filter hook output priority 0; policy accept;";
    let rule = "ip daddr 169.254.169.254 drop";
    spec.filter =
        format!("table inet unanswered {{\n chain output {{\n  {hook}\n  {rule}\n }}\n}}\n");
    let pod = node.create(&spec);
    finds(
        &node,
        &pod,
        "metadata-wait",
        &["169.254.169.254", "CLOUD_PLATFORM", "user 1337"],
    );
}

#[test]
fn deadline_close_to_expiry() {
    let Some(node) = observing() else { return };
    let since = SystemTime::now() - Duration::from_secs(550);
    let pod = node.run(
        &PodSpec::job("late")
            .field("activeDeadlineSeconds", json!(600))
            .since(since),
    );
    finds(
        &node,
        &pod,
        "deadline-near",
        &["activeDeadlineSeconds", "not on the node"],
    );
}

#[test]
fn running_sidecar_of_a_finished_pod() {
    let Some(node) = observing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("stuck"));
    pod.finish("app", 0);
    pod.ended("app");
    // The finding has the newest decision.
    agent.wait_for("would-quit", &pod.name());
    finds(
        &node,
        &pod,
        "sidecar-stays",
        &[
            "would-quit",
            "POST :15020/quitquitquit",
            "usher.dev/quit=enforce",
        ],
    );
    let pod = node.run(&linkerd::disabled().job("linkerd"));
    pod.finish("app", 0);
    pod.ended("app");
    agent.wait_for("would-quit", &pod.name());
    finds(
        &node,
        &pod,
        "quit-endpoint-off",
        &["SHUTDOWN_ENDPOINT_ENABLED", "would-quit"],
    );
}

/// A hint is not a problem: the pod is healthy, and the better configuration is named.
#[test]
fn native_sidecar_is_recommended() {
    let Some(node) = observing() else { return };
    let native =
        json!([{"name": "istio-proxy", "image": "proxyv2:1.27.0", "restartPolicy": "Always"}]);
    let other = PodSpec::new("other")
        .with(ContainerSpec::app("app"))
        .field("initContainers", native);
    let _other = node.run(&other);
    let pod = node.run(&PodSpec::job("classic"));
    let (explanation, code) = explain(&node, &pod);
    let findings = explanation["findings"].as_array().unwrap();
    assert_eq!((findings.len(), code), (1, Some(0)), "{explanation:#}");
    assert_eq!(findings[0]["id"], "native-possible");
    assert!(
        findings[0].to_string().contains("pod default/other"),
        "{explanation:#}"
    );
}

#[test]
fn without_agent_and_without_kubelet() {
    let Some(node) = observing() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&PodSpec::job("alone"));
    let has_timeline = |explanation: &Value| {
        let reported = explanation["timeline"].as_array().unwrap();
        reported.iter().any(|moment| moment["from"] == "usher")
    };
    eventually("a decision", || has_timeline(&explain(&node, &pod).0));
    agent.kill();
    let ran = run(&node, &["explain", &pod.name(), "-o", "wide"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("no agent answers"), "{ran:?}");
    assert!(
        ran.stdout.contains("the timeline is that of the last one"),
        "{ran:?}"
    );
    node.kubelet()
        .behave(usher_tests::synthetic::Behaviour::Status(503));
    let ran = run(&node, &["explain", &pod.name()]);
    assert_eq!((ran.code, &ran.stdout[..]), (Some(5), ""), "{ran:?}");
    assert!(
        ran.stderr
            .contains("cannot explain a pod without the kubelet"),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("503"), "{ran:?}");
}
