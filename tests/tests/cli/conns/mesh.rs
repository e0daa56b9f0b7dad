//! Connections through the mesh, and the owner of each socket.

use std::path::Path;

use serde_json::Value;
use usher_tests::golden;
use usher_tests::synthetic::wire::Holding;
use usher_tests::synthetic::{ContainerSpec, Node, Pod, PodSpec, spec::ISTIO_PROXY};
use usher_tests::wait::{found_within, patience};

use super::{EXCLUDED, FAR, meshed};
use crate::{answer, enforcing, json};

fn app() -> Holding {
    Holding::default()
        .called("report")
        .listening("127.0.0.1:8080")
        .ignoring("127.0.0.1:8082")
        .connected(FAR, 2)
        .connected("127.0.0.1:8080", 1)
        .connected("127.0.0.1:8082", 1)
        .connected("127.0.0.1:15020", 1)
        .connecting(EXCLUDED)
}

fn sockets(answer: &Value) -> &Vec<Value> {
    answer["sockets"].as_array().unwrap()
}

/// Waits until the proxy and the app have accepted every connection, and returns the sockets.
fn settled(node: &Node, pod: &Pod) -> Value {
    found_within(patience(), "accepted connections", || {
        let found = json(node, &["conns", &pod.name()]);
        let held = sockets(&found).iter().filter(|row| {
            let is_accepted = row["container"] == ISTIO_PROXY || row["local"] == "127.0.0.1:8080";
            is_accepted && row["owner"] == "process" && row["state"] == "ESTAB"
        });
        (held.count() == 4).then_some(found)
    })
}

fn ways<'a>(answer: &'a Value, container: &str, peer: &str) -> Vec<&'a Value> {
    let rows = sockets(answer).iter().filter(|row| {
        row["container"] == container && row["peer"].as_str().is_some_and(|at| at == peer)
    });
    rows.map(|row| &row["via"]).collect()
}

#[test]
fn every_connection_has_its_path() {
    let Some(node) = enforcing() else { return };
    let pod = meshed(&node, "ways", app());
    let answer = settled(&node, &pod);
    assert_eq!(answer["kind"], "Conns");
    assert_eq!(answer["pod"], pod.name());
    assert_eq!(answer["gaps"], serde_json::json!([]));
    for way in ways(&answer, "app", FAR) {
        assert_eq!(way["how"], "through");
        assert_eq!(way["container"], ISTIO_PROXY);
        assert_eq!(way["port"], 15001);
    }
    assert_eq!(ways(&answer, "app", FAR).len(), 2);
    assert_eq!(ways(&answer, "app", "127.0.0.1:15020")[0]["how"], "to");
    assert_eq!(ways(&answer, "app", "127.0.0.1:8080")[0]["how"], "direct");
    let unanswered = ways(&answer, "app", EXCLUDED)[0];
    assert_eq!(unanswered["how"], "unknown");
    assert_eq!(unanswered["why"], "the connection is not established yet");
    let of_proxy = sockets(&answer)
        .iter()
        .filter(|row| row["container"] == ISTIO_PROXY);
    for row in of_proxy.filter(|row| row["state"] == "ESTAB") {
        assert_eq!(row["via"]["how"], "for", "{row}");
        assert_eq!(row["via"]["container"], "app");
        assert_eq!(row["uid"], 1337);
        assert_eq!(row["processes"][0]["pid"], pod.pid(ISTIO_PROXY));
        assert_eq!(row["processes"][0]["name"], "envoy");
    }
    // The connection is not accepted yet: it belongs to the listener's container all the same.
    let queued = sockets(&answer)
        .iter()
        .find(|row| row["local"] == "127.0.0.1:8082" && row["state"] == "ESTAB");
    assert_eq!(queued.unwrap()["container"], "app");
    assert_eq!(queued.unwrap()["owner"], "container");
    assert_eq!(answer["unattributed"], 0);
}

/// The words of a line, separated by one space, with placeholders for varying values.
fn named(line: &str, names: &[(String, &str)]) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let replace = |line: String, (text, name): &(String, &str)| line.replace(text.as_str(), name);
    names.iter().fold(words.join(" "), replace)
}

#[test]
fn table_output() {
    let Some(node) = enforcing() else { return };
    let pod = meshed(&node, "table", app());
    let found = settled(&node, &pod);
    // Ports that the kernel chose, by their owner.
    let mut names: Vec<(String, &str)> = vec![
        (format!("{}/", pod.pid("app")), "PID/"),
        (format!("{}/", pod.pid(ISTIO_PROXY)), "PID/"),
    ];
    for row in sockets(&found) {
        for end in [&row["local"], &row["peer"]] {
            let port = end.as_str().and_then(|end| end.rsplit(':').next());
            if let Some(port) = port.filter(|port| port.parse::<u16>().unwrap() > 20000) {
                names.push((format!(":{port}"), ":PORT"));
            }
        }
    }
    let text = answer(&node, &["conns", &pod.name()]);
    // The width of a column, and the order of two sockets, depend on those numbers.
    let mut lines: Vec<String> = text.lines().map(|line| named(line, &names)).collect();
    lines[1..].sort();
    let text = lines.join("\n") + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/golden/conns.txt");
    golden::check(&file, &text, &[]);
}

#[test]
fn hostile_name_is_escaped() {
    let Some(node) = enforcing() else { return };
    let app = Holding::default()
        .called("\u{1b}[2J\u{202e}a\nb")
        .listening("127.0.0.1:8080");
    let spec = PodSpec::new("hostile").with(ContainerSpec::holding("app", app));
    let pod = node.run(&spec);
    pod.wait_line("app", "holding");
    for form in ["table", "wide", "json", "yaml"] {
        let text = answer(&node, &["conns", &pod.name(), "-o", form]);
        let acts = |character: char| character != '\n' && character.is_control();
        assert!(!text.contains(acts), "{form}: {text:?}");
        assert!(!text.contains('\u{202e}'), "{form}: {text:?}");
    }
    let text = answer(&node, &["conns", &pod.name()]);
    assert!(text.contains(r"\x1b[2J\u{202e}a\nb"), "{text}");
    // One header line, one line for the socket.
    assert_eq!(text.lines().count(), 2, "{text}");
}
