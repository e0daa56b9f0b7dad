//! Every command of the program `usher`, by `kubectl exec` in the agent's container, on a pod without tools: a static
//! app and a real Istio proxy, in a namespace with the restricted policy.
//!
//! The expected output is in `golden/`, as text and JSON, with placeholders for varying values. `USHER_BLESS=1` rewrites it.

use std::path::Path;

use regex::Regex;
use serde_json::{Value, json};
use usher_cluster::workload::{app_container, istio_proxy_container, job};
use usher_tests::golden;

use crate::{
    lab::{self, Lab, Namespace, USHER, until},
    ran::Ran,
    workload::{container_runs, pod},
};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/golden");
/// The placeholder for the pod in a command.
const POD: &str = "POD";
/// Each command: the name of its golden files, its arguments, whether it has JSON, the exit code.
const COMMANDS: [(&str, &[&str], bool, i32); 15] = [
    ("pods", &["pods", "PART"], true, 0),
    ("plan", &["plan", POD], true, 0),
    ("conns", &["conns", POD, "--listening"], true, 0),
    ("rules", &["rules", POD], true, 0),
    ("rules-diff", &["rules", POD, "--diff"], true, 0),
    ("explain", &["explain", POD], true, 1),
    ("check-pod", &["check", POD], true, 1),
    ("quit", &["quit", POD, "--dry-run"], true, 3),
    ("hold", &["hold", POD, "--dry-run"], true, 0),
    ("release", &["release", POD, "--dry-run"], true, 0),
    (
        "request",
        &["request", POD, "GET", ":15000/ready", "-i"],
        false,
        1,
    ),
    (
        "request-head",
        &["request", POD, "HEAD", "http://127.0.0.1:8080/", "-i"],
        false,
        0,
    ),
    ("config", &["config", "mode", "--sources"], true, 0),
    ("metrics", &["metrics", "usher_mode", "--all"], true, 0),
    ("log", &["log"], true, 0),
];
/// Commands about the node, with output that differs between nodes: the arguments, and a part of the output.
const NODE: [(&[&str], &str); 4] = [
    (&["status"], "usher is healthy"),
    (&["status", "--brief"], "ok: quit enforce, hold enforce"),
    (&["check"], "✓ the agent"),
    (&["check", "--pre"], "✓"),
];
/// Values that vary with the cluster, besides those that always do.
const VARIES: [(&str, &str); 16] = [
    (
        r#""(pid|inode|atMs|uid|upMs|listedMsAgo|lastResponseMsAgo|quitForMs|holdForMs|sinceMs|agoMs|atS)": \d+"#,
        r#""$1": NUMBER"#,
    ),
    (r"\b\d+/(envoy|pilot-agent|usher-test-app)", "PID/$1"),
    (r"process \d+", "process PID"),
    (r"\b10\.\d+\.\d+\.\d+\b", "IP"),
    (r"\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b", "MAC"),
    (r"\bfe80::[0-9a-f:]+/64", "LINK-LOCAL/64"),
    (r#""peer": \d+"#, r#""peer": NUMBER"#),
    (r"\b(IP|127\.0\.0\.1):(3|4|5|6)\d{4}\b", "$1:PORT"),
    (r"(?i)date: .*", "date: DATE"),
    (r"\d+ pods", "N pods"),
    (
        r"\d+ seen, \d+ of usher's business, \d+ held, \d+ finished, \d+ failed",
        "CENSUS",
    ),
    (r"N pods, \d+ held, \d+ finished", "CENSUS"),
    (
        r"(\d+ of \d+|\d+ (instances|watches|files|lines|bytes|MiB|Events))",
        "COUNT",
    ),
    (r"Linux [0-9][^ ,;]*", "Linux RELEASE"),
    (r"\d+ (ok|skipped|warnings?)\b", "N $1"),
    (r" +$", ""),
];

/// Runs `usher` as a user with kubectl does.
fn usher(lab: &Lab, words: &[&str]) -> Ran {
    let mut command = lab.cluster.kubectl_command();
    command.args(["-n", USHER, "exec", "ds/usher", "--", "usher"]);
    Ran::of(command.args(words))
}

/// A namespace with the restricted policy.
fn restricted(lab: &'static Lab, test: &str) -> Namespace {
    let namespace = lab.namespace(test);
    let label = "pod-security.kubernetes.io/enforce=restricted";
    lab.cluster
        .kubectl(&["label", "namespace", &namespace, label])
        .unwrap();
    namespace
}

/// A Job with an app that serves until it is terminated, alongside a real proxy.
fn shell_less(lab: &Lab, namespace: &str) -> Value {
    let mut app = app_container("app", &["--serve", "8080", "--run-for", "900s"]);
    app["securityContext"] = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "runAsUser": 65532,
    });
    let mut object = job("job", namespace, "Never", &[app, istio_proxy_container()]);
    object["spec"]["template"]["spec"]["securityContext"] =
        json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } });
    lab.cluster.apply(&object).unwrap();
    container_runs(lab, namespace, "istio-proxy");
    container_runs(lab, namespace, "app");
    pod(lab, namespace).unwrap()
}

/// Inserts the placeholders for varying values.
fn named(text: &str, namespace: &str, pod: &str) -> String {
    let text = text.replace(pod, "POD").replace(namespace, "NAMESPACE");
    let named = VARIES.iter().fold(text, |text, (pattern, name)| {
        let pattern = Regex::new(&format!("(?m){pattern}")).unwrap();
        pattern.replace_all(&text, *name).into_owned()
    });
    // The width of columns depends on their values.
    Regex::new(r"[ \t]{2,}")
        .unwrap()
        .replace_all(&named, "  ")
        .into_owned()
}

/// Inserts a placeholder for the node's name, which may be the prefix of a program's.
fn without_node(text: &str, node: &str) -> String {
    let whole = Regex::new(&format!(r"\b{}\b([^-]|$)", regex::escape(node))).unwrap();
    whole.replace_all(text, "NODE$1").into_owned()
}

/// The events before the release vary, so the test compares the rest of an explanation.
fn without_timeline(file: &str, end: &str, text: String) -> String {
    match (file, end) {
        ("explain", "json") => {}
        ("explain", _) => {
            let (before, timeline) = text.split_once("\ntimeline").unwrap_or((&text, ""));
            assert!(timeline.contains("hold-released"), "{text}");
            return before.to_owned();
        }
        _ => return text,
    }
    let mut explanation: Value = serde_json::from_str(&text).unwrap_or_default();
    let timeline = explanation
        .as_object_mut()
        .and_then(|explanation| explanation.remove("timeline"));
    assert!(
        timeline.is_some_and(|timeline| !timeline[0].is_null()),
        "{text}"
    );
    format!("{explanation:#}\n")
}

#[test]
fn each_command_works_on_a_pod_without_a_shell() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = restricted(*lab, "cli");
    let pod = shell_less(&lab, &namespace);
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    let full = format!("{}/{name}", &*namespace);
    // Envoy opens its ports one by one, and the hold ends at the deadline: this proxy has no control plane.
    until("all ports of the sidecar", || {
        let stdout = usher(&lab, &["conns", &full, "--listening", "-o", "json"]).stdout;
        let conns: Value = serde_json::from_slice(&stdout).ok()?;
        let rows = conns["sockets"].as_array()?;
        let at = |port: &str| {
            rows.iter().any(|row| {
                row["local"]
                    .as_str()
                    .is_some_and(|local| local.ends_with(port))
            })
        };
        [":8080", ":15000", ":15020"]
            .iter()
            .all(|port| at(port))
            .then_some(())
    });
    until("the ports to be released", || {
        let stdout = usher(&lab, &["rules", &full, "-o", "json"]).stdout;
        let rules: Value = serde_json::from_slice(&stdout).ok()?;
        rules["table"].is_null().then_some(())
    });
    let mut wrong = Vec::new();
    for (file, words, has_json, code) in COMMANDS {
        let words: Vec<&str> = words
            .iter()
            .map(|word| match *word {
                POD => full.as_str(),
                "PART" => &namespace,
                word => word,
            })
            .collect();
        let forms: &[&[&str]] = if has_json {
            &[&[], &["-o", "json"]]
        } else {
            &[&[]]
        };
        for form in forms {
            let ran = usher(&lab, &[&words[..], form].concat());
            if ran.code != Some(code) {
                wrong.push(format!(
                    "{words:?} {form:?}: {:?}, {}",
                    ran.code, ran.stderr
                ));
            }
            let end = if form.is_empty() { "txt" } else { "json" };
            let text = ran.text();
            let text = without_node(&without_timeline(file, end, text), lab.cluster.node_name());
            let text = named(&text, &namespace, &name);
            let golden = Path::new(GOLDEN).join(format!("{file}.{end}"));
            let checked = std::panic::catch_unwind(|| golden::check(&golden, &text, &[]));
            if checked.is_err() {
                wrong.push(format!(
                    "{words:?} {form:?}: not what {} says",
                    golden.display()
                ));
            }
        }
    }
    for (words, expected) in NODE {
        let ran = usher(&lab, words);
        let text = ran.text();
        if ran.code != Some(0) || !text.contains(expected) {
            wrong.push(format!("{words:?}: {:?}, {text}", ran.code));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Commands that stream, or create a file.
#[test]
fn capture_and_sysdump_are_copied_completely() {
    let Some(lab) = lab::shared() else {
        return;
    };
    let namespace = restricted(*lab, "cli");
    let pod = shell_less(&lab, &namespace);
    let full = format!(
        "{}/{}",
        &*namespace,
        pod["metadata"]["name"].as_str().unwrap()
    );
    let captured = std::thread::scope(|scope| {
        let capture = scope.spawn(|| {
            usher(
                &lab,
                &[
                    "capture", &full, "--port", "8080", "--count", "6", "-w", "-",
                ],
            )
        });
        until("packets enough", || {
            usher(&lab, &["request", &full, "GET", ":8080/"]);
            capture.is_finished().then_some(())
        });
        capture.join().unwrap()
    });
    assert_eq!(captured.code, Some(0), "{}", captured.stderr);
    // The magic number of pcapng's section header.
    assert_eq!(captured.stdout[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(captured.stderr.contains("6 packets"), "{}", captured.stderr);
    let dump = usher(&lab, &["sysdump", "--pod", &full, "-w", "-"]);
    assert_eq!(dump.code, Some(0), "{}", dump.stderr);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dump.tar.gz");
    std::fs::write(&file, &dump.stdout).unwrap();
    // Read by a program without a node.
    for words in [
        &["explain", &full][..],
        &["conns", &full],
        &["plan", &full],
        &["rules", &full],
        &["status"],
        &["pods"],
        &["config"],
        &["metrics"],
        &["report"],
        &["check"],
    ] {
        let file = file.display().to_string();
        let arguments: Vec<String> = words
            .iter()
            .chain(&["--file", &file])
            .map(|word| (*word).to_owned())
            .collect();
        let ran = usher_tests::synthetic::usher::run(&arguments);
        assert!(matches!(ran.code, Some(0 | 1)), "{words:?}: {ran:?}");
        assert!(!ran.stdout.is_empty(), "{words:?}: {ran:?}");
    }
}
