//! `usher resolve`, with the files of a synthetic pod and a DNS server in its network namespace.

pub(crate) mod server;

use serde_json::{Value, json};
use usher_tests::{
    privilege,
    synthetic::{
        ContainerSpec, Node, Pod, PodSpec,
        program::{HOSTS, RESOLV_CONF},
        usher,
    },
};

use self::server::{ADDRESS, Server};
use crate::run;

/// The test's own root is the node's. A sandbox may forbid `/proc/1/root`.
pub(crate) const HOST_ROOT: &str = "--host-root=/";
/// A server without a listener comes first.
const FILE: &str = "search shop.svc.cluster.local svc.cluster.local\nnameserver 127.0.0.2\nnameserver 127.0.0.1\noptions ndots:5 timeout:30\n";
const NAME: &str = "db.svc.cluster.local";

fn pod(name: &str) -> Option<(Node, Pod, Server)> {
    let node = privilege::granted().then(Node::new)?;
    let spec = PodSpec::new(name)
        .with(ContainerSpec::app("app"))
        .with_file(RESOLV_CONF, FILE)
        .with_file(
            HOSTS,
            "127.0.0.1 localhost\n10.9.9.9 printer printer.shop\n",
        );
    let pod = node.run(&spec);
    let server = Server::start(&pod);
    Some((node, pod, server))
}

/// Runs it with `-o json`: the exit code, and the report.
fn resolve(node: &Node, arguments: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["resolve", HOST_ROOT], arguments, &["-o", "json"]].concat();
    let ran = run(node, &arguments);
    let report = serde_json::from_str(&ran.stdout);
    (ran.code, report.unwrap_or_else(|_| panic!("{ran:?}")))
}

/// Name, type, server and outcome of each query.
fn exchanges(report: &Value) -> Vec<[&str; 4]> {
    let exchanges = report["exchanges"].as_array().unwrap().iter();
    let fields = ["queried", "record", "server", "outcome"];
    exchanges
        .map(|exchange| fields.map(|field| exchange[field].as_str().unwrap()))
        .collect()
}

#[test]
fn search_follows_the_files_of_the_pod() {
    let Some((node, pod, _server)) = pod("search") else {
        return;
    };
    let (code, report) = resolve(&node, &[&pod.name(), "db"]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["kind"], "Resolution");
    assert_eq!(report["pod"], pod.name());
    assert_eq!(report["addresses"], json!([ADDRESS, "fd00::3"]));
    assert_eq!(
        report["source"],
        json!({"server": {"server": "127.0.0.1:53", "queried": NAME}})
    );
    let other = "db.shop.svc.cluster.local";
    let expected = [
        [other, "A", "127.0.0.2:53", "port-unreachable"],
        [other, "AAAA", "127.0.0.2:53", "port-unreachable"],
        [other, "A", "127.0.0.1:53", "no-such-name"],
        [other, "AAAA", "127.0.0.1:53", "no-such-name"],
        [NAME, "A", "127.0.0.2:53", "port-unreachable"],
        [NAME, "AAAA", "127.0.0.2:53", "port-unreachable"],
        [NAME, "A", "127.0.0.1:53", "addresses"],
        [NAME, "AAAA", "127.0.0.1:53", "addresses"],
    ];
    assert_eq!(exchanges(&report), expected);
    let table = run(&node, &["resolve", HOST_ROOT, &pod.name(), "db"]);
    assert!(
        table.stdout.starts_with(&format!(
            "db is {ADDRESS}, fd00::3 ({NAME}, from 127.0.0.1:53 in "
        )),
        "{table:?}"
    );

    let (code, report) = resolve(&node, &[&pod.name(), "printer"]);
    assert_eq!(code, Some(0));
    assert_eq!(report["addresses"], json!(["10.9.9.9"]));
    assert_eq!(report["source"], "hosts");
    assert_eq!(report["exchanges"], json!([]));
}

#[test]
fn aliases_and_large_replies() {
    let Some((node, pod, _server)) = pod("alias") else {
        return;
    };
    let (_code, report) = resolve(&node, &[&pod.name(), "alias.example."]);
    assert_eq!(report["addresses"], json!([ADDRESS]));
    let first = &report["exchanges"][2];
    assert_eq!(first["aliasOf"], "target.alias.example");
    assert_eq!(first["transport"], "udp");

    let (_code, report) = resolve(&node, &[&pod.name(), "large.example."]);
    assert_eq!(report["addresses"], json!([ADDRESS]));
    assert_eq!(report["exchanges"][2]["transport"], "tcp");
}

#[test]
fn absent_name_differs_from_a_silent_server() {
    let Some((node, pod, server)) = pod("absent") else {
        return;
    };
    let absent = run(
        &node,
        &[
            "resolve",
            HOST_ROOT,
            &pod.name(),
            "nothing",
            "--server",
            "127.0.0.1",
        ],
    );
    assert_eq!(absent.code, Some(1), "{absent:?}");
    assert!(
        absent.stdout.starts_with(
            "nothing has no address; queried: nothing.shop.svc.cluster.local, nothing.svc.cluster.local, nothing\n"
        ),
        "{absent:?}"
    );
    let (code, report) = resolve(
        &node,
        &[&pod.name(), "broken.example.", "--server=127.0.0.1"],
    );
    assert_eq!(code, Some(5));
    assert_eq!(exchanges(&report)[0][3], "server-failure");

    server.silence();
    let name = pod.name();
    let silent = ["--server", "127.0.0.1", "--timeout", "300ms"];
    let silent = run(
        &node,
        &[&["resolve", HOST_ROOT, &name, "db"], &silent[..]].concat(),
    );
    assert_eq!(silent.code, Some(5), "{silent:?}");
    let text = format!("no DNS server of {} (127.0.0.1) replied within", pod.name());
    assert!(silent.stdout.starts_with(&text), "{silent:?}");
}

#[test]
fn pod_without_the_file_needs_a_server() {
    let Some(node) = privilege::granted().then(Node::new) else {
        return;
    };
    let pod = node.run(&PodSpec::new("bare").with(ContainerSpec::app("app")));
    let _server = Server::start(&pod);
    let bare = run(&node, &["resolve", &pod.name(), NAME]);
    assert_eq!(bare.code, Some(5), "{bare:?}");
    assert!(bare.stderr.contains("--server"), "{bare:?}");
    let (code, report) = resolve(&node, &[&pod.name(), NAME, "--server", "127.0.0.1"]);
    assert_eq!(code, Some(0));
    assert_eq!(report["addresses"][0], ADDRESS);
    // A name that no query can contain.
    let ran = usher::on(&node, &["resolve", &pod.name(), "a b"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
