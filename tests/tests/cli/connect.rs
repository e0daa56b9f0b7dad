//! `usher connect`, in a mesh and without one.

use std::{net::TcpListener, thread};

use serde_json::{Value, json};
use usher_tests::{
    privilege,
    synthetic::{
        ContainerSpec, Node, Pod, PodSpec,
        program::RESOLV_CONF,
        spec::ISTIO_PROXY,
        wire::{Capture, Holding},
    },
    wait::{found_within, patience},
};

use crate::{
    conns::UNANSWERED,
    enforcing,
    network::inside,
    resolve::{HOST_ROOT, server::Server},
    run,
};

/// An address that leads to the mesh.
const FAR: &str = "10.7.7.7:8080";
/// A port that the mesh does not redirect, of a host that does not exist.
const EXCLUDED: &str = "10.7.7.7:9999";

fn captured(name: &str) -> PodSpec {
    let mut spec = PodSpec::new(name).captured(Capture {
        excluded: vec![9999],
        ..Capture::default()
    });
    UNANSWERED.clone_into(&mut spec.filter);
    spec
}

/// Runs it with `-o json`: the exit code, and the report.
fn connect(node: &Node, pod: &Pod, arguments: &[&str]) -> (Option<i32>, Value) {
    let name = pod.name();
    let arguments = [&["connect", &name, HOST_ROOT], arguments, &["-o", "json"]].concat();
    let ran = run(node, &arguments);
    let report = serde_json::from_str(&ran.stdout);
    (ran.code, report.unwrap_or_else(|_| panic!("{ran:?}")))
}

#[test]
fn path_leads_through_the_sidecar() {
    let Some(node) = enforcing() else { return };
    let proxy = Holding::default()
        .called("envoy")
        .listening("0.0.0.0:15001");
    let app = Holding::default().listening("127.0.0.1:8080");
    let spec = captured("captured")
        .with(ContainerSpec::holding_proxy(proxy))
        .with(ContainerSpec::holding("app", app));
    let pod = node.run(&spec);
    for container in [ISTIO_PROXY, "app"] {
        pod.wait_line(container, "holding");
    }

    let (code, report) = connect(&node, &pod, &[FAR]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["kind"], "Connection");
    let attempt = &report["attempts"][0];
    assert_eq!(attempt["address"], FAR);
    assert_eq!(attempt["outcome"], "connected");
    assert_eq!(
        attempt["via"],
        json!({"how": "through", "container": ISTIO_PROXY, "port": 15001})
    );
    assert_eq!(attempt["reaction"], "open");
    let table = run(&node, &["connect", &pod.name(), FAR]).stdout;
    assert!(
        table.contains("does not show that 10.7.7.7:8080 accepts it"),
        "{table}"
    );
    assert!(table.contains("through istio-proxy:15001"), "{table}");

    // The pod's own listener, which no proxy redirects.
    let (code, report) = connect(&node, &pod, &[":8080"]);
    assert_eq!(code, Some(0), "{report}");
    let attempt = &report["attempts"][0];
    assert_eq!(
        attempt["via"],
        json!({"how": "to", "container": "app", "port": 8080})
    );
    assert!(attempt["reaction"].is_null(), "{report}");

    let (code, report) = connect(&node, &pod, &["127.0.0.1:8081"]);
    assert_eq!(code, Some(5));
    assert_eq!(report["attempts"][0]["outcome"], "refused");
    let (code, report) = connect(&node, &pod, &[EXCLUDED, "--timeout=300ms"]);
    assert_eq!(code, Some(5));
    assert_eq!(report["attempts"][0]["outcome"], "timeout");
}

#[test]
fn sidecar_that_closes_the_connection_is_no_success() {
    let Some(node) = enforcing() else { return };
    let pod = node.run(&captured("closing").with(ContainerSpec::app("app")));
    let proxy = inside(&pod, || TcpListener::bind("0.0.0.0:15001").unwrap());
    thread::spawn(move || proxy.incoming().for_each(drop));
    // usher waits a second for the reaction; the proxy may be slower on a busy machine.
    let (code, report) = found_within(patience(), "a closed connection", || {
        let (code, report) = connect(&node, &pod, &[FAR]);
        let is_closed = report["attempts"][0]["reaction"] == "closed";
        is_closed.then_some((code, report))
    });
    assert_eq!(code, Some(5), "{report}");
    assert_eq!(report["attempts"][0]["outcome"], "connected");
    let text = format!("{} cannot reach {FAR}: the sidecar accepted", pod.name());
    found_within(patience(), "the same as a table", || {
        let table = run(&node, &["connect", &pod.name(), FAR]);
        table.stdout.starts_with(&text).then_some(())
    });
}

#[test]
fn name_is_resolved_with_the_files_of_the_pod() {
    let Some(node) = privilege::granted().then(Node::new) else {
        return;
    };
    let spec = PodSpec::new("named")
        .with(ContainerSpec::app("app"))
        .with_file(RESOLV_CONF, "nameserver 127.0.0.1\nsearch example\n");
    let pod = node.run(&spec);
    let _server = Server::start(&pod);
    let listener = inside(&pod, || TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    let (code, report) = connect(&node, &pod, &[&format!("here:{port}")]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["resolution"]["addresses"], json!(["127.0.0.1"]));
    assert_eq!(
        report["attempts"][0]["address"],
        format!("127.0.0.1:{port}")
    );

    let (code, report) = connect(&node, &pod, &["nothing:80"]);
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(report["attempts"], json!([]));
    for wrong in ["here", "here:0", "http://here:80"] {
        assert_eq!(run(&node, &["connect", &pod.name(), wrong]).code, Some(2));
    }
}
