//! The program `kubectl-usher` against a stand-in for the API server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lab;
mod server;

use std::fs;

use serde_json::{Value, json};

use crate::{
    lab::{Lab, cluster, replies},
    server::{Cluster, Executed, Reply},
};

#[test]
fn a_command_runs_on_the_node_of_the_pod() {
    let report = ["usher", "explain", "--", "shop/report-x7k2p"];
    let table: [(&[&str], &str, &[&str]); 9] = [
        (&["explain", "shop/report-x7k2p"], "usher-two", &report),
        // Selected by a part of the name, in the namespace of the context or of -n.
        (&["explain", "report"], "usher-two", &report),
        (
            &["--context", "bank", "explain", "report", "-n", "shop"],
            "usher-two",
            &report,
        ),
        (
            &["-n=shop", "conns", "bill-1", "-o", "json"],
            "usher-one",
            &["usher", "conns", "--output=json", "--", "shop/bill-1"],
        ),
        // The agent also follows later pods with this part in their names.
        (
            &["watch", "report"],
            "usher-two",
            &["usher", "watch", "--end-with-stdin", "--", "shop/report"],
        ),
        // Another selector, with the node given.
        (
            &["explain", "10.1.0.4", "--node", "one"],
            "usher-one",
            &["usher", "explain", "--", "10.1.0.4"],
        ),
        // A command that changes a pod concerns the namespace of the context.
        (
            &["release", "bill-1", "--node", "one"],
            "usher-one",
            &["usher", "release", "--", "shop/bill-1"],
        ),
        (
            &["pods", "-n", "shop", "--node=two"],
            "usher-two",
            &["usher", "pods", "--namespace=shop"],
        ),
        (
            &["sysdump", "--pod", "bill-2", "--pod", "report", "-w", "-"],
            "usher-two",
            &[
                "usher",
                "sysdump",
                "--pod=shop/bill-2",
                "--pod=shop/report-x7k2p",
                "--write=-",
            ],
        ),
    ];
    for (given, agent, words) in table {
        let lab = Lab::start(cluster(replies(0)));
        let ran = lab.run(given);
        assert_eq!(ran.code, Some(0), "{given:?}: {}", ran.stderr);
        let expected = Executed {
            pod: format!("usher/{agent}"),
            container: "agent".to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            stdin: Vec::new(),
        };
        assert_eq!(lab.executed(), expected, "{given:?}");
    }
}

#[test]
fn streams_and_exit_codes_are_passed_on() {
    let binary: Vec<u8> = (0..=255).cycle().take(3_000_001).collect();
    let sent = binary.clone();
    let lab = Lab::start(cluster(move |_executed| Reply {
        stdout: sent.clone(),
        stderr: b"usher: a note\n".to_vec(),
        code: Some(3),
    }));
    let ran = lab.run(&["capture", "report", "-w", "-"]);
    assert_eq!((ran.code, &ran.stderr[..]), (Some(3), "usher: a note\n"));
    assert!(ran.stdout == binary, "{} bytes", ran.stdout.len());
    // The output goes to a file of this machine, which must not exist.
    let ran = lab.run(&["capture", "report", "-w", "a.pcapng"]);
    assert_eq!((ran.code, ran.stdout), (Some(3), Vec::new()));
    let path = lab.folder.path().join("a.pcapng");
    assert!(fs::read(&path).unwrap() == binary);
    let ran = lab.run(&["capture", "report", "-w", "a.pcapng"]);
    assert!(ran.stderr.contains("the file exists"), "{}", ran.stderr);
    assert_eq!(ran.code, Some(1));
}

#[test]
fn the_body_of_a_request_is_a_file_of_this_machine() {
    let body: Vec<u8> = (0..=255).cycle().take(700_000).collect();
    let lab = Lab::start(cluster(replies(0)));
    fs::write(lab.folder.path().join("body"), &body).unwrap();
    let ran = lab.run(&["request", "report", "POST", ":8080/", "-d", "@body"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let executed = lab.executed();
    assert!(executed.stdin == body, "{} bytes", executed.stdin.len());
    assert!(
        executed.words.contains(&"--data=@-".to_owned()),
        "{executed:?}"
    );
    let lab = Lab::start(cluster(replies(0)));
    let file = fs::File::open("/etc/passwd").unwrap();
    let ran = lab.run_with(
        &["request", "report", "POST", ":8080/", "-d", "@-"],
        file.into(),
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(lab.executed().stdin, fs::read("/etc/passwd").unwrap());
}

#[test]
fn missing_objects_are_named() {
    let table: [(&[&str], i32, &str); 10] = [
        (
            &["explain", "absent"],
            4,
            "no pod of namespace shop has \"absent\" in its name",
        ),
        (
            &["explain", "bill"],
            4,
            "matches several pods of namespace shop: bill-1, bill-2",
        ),
        (
            &["explain", "pending"],
            5,
            "pod shop/pending is not scheduled to a node yet",
        ),
        (&["explain", "bank/ledger"], 5, "no agent on node three"),
        (
            &["explain", "shop/bill-1", "-n", "bank"],
            2,
            "is not in the namespace \"bank\"",
        ),
        (&["explain", "fd00::4"], 2, "add --node NODE"),
        (
            &["status"],
            2,
            "add --node NODE; nodes with an agent: one, two",
        ),
        (
            &["explain", "bill-1", "--all-nodes"],
            2,
            "--all-nodes supports only",
        ),
        (
            &["--context", "none", "status"],
            2,
            "cannot use the kubeconfig",
        ),
        (
            &["--kubeconfig", "/none", "status"],
            2,
            "cannot use the kubeconfig",
        ),
    ];
    let lab = Lab::start(cluster(replies(0)));
    for (given, code, text) in table {
        let ran = lab.run(given);
        assert_eq!(ran.code, Some(code), "{given:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(text), "{given:?}: {}", ran.stderr);
    }
    assert_eq!(lab.server.executed(), []);
}

#[test]
fn missing_rights_are_named() {
    let table: [(&[&str], i32, &str); 6] = [
        (
            &["get pods in shop"],
            3,
            "missing permission: get pods in namespace shop",
        ),
        (
            &["list pods", "list pods in usher"],
            3,
            "missing permission: list pods in namespace usher (pods is forbidden); if usher has another namespace",
        ),
        // The right in the documented namespace is sufficient.
        (&["list pods"], 0, ""),
        (
            &["get pods/exec in usher"],
            3,
            "missing permission: get pods/exec in namespace usher",
        ),
        (
            &["get pods/exec in usher", "create pods/exec in usher"],
            3,
            "missing permission: get and create pods/exec in namespace usher",
        ),
        (&["list pods in shop"], 0, ""),
    ];
    for (forbidden, code, text) in table {
        let lab = Lab::start(Cluster {
            forbidden: forbidden.to_vec(),
            ..cluster(replies(0))
        });
        let ran = lab.run(&["explain", "bill-1"]);
        assert_eq!(ran.code, Some(code), "{forbidden:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(text), "{forbidden:?}: {}", ran.stderr);
    }
}

#[test]
fn a_lost_connection_is_an_error() {
    let lab = Lab::start(cluster(|_executed| Reply {
        stdout: b"half".to_vec(),
        ..Reply::default()
    }));
    let ran = lab.run(&["explain", "bill-1"]);
    assert_eq!(
        (ran.code, &ran.stdout[..]),
        (Some(5), &b"half"[..]),
        "{}",
        ran.stderr
    );
    let text = "lost the connection to pod usher-one on node one";
    assert!(ran.stderr.contains(text), "{}", ran.stderr);
    // A part of an archive is of no use, a part of a capture is.
    let table: [&[&str]; 3] = [
        &["sysdump", "--node", "one", "-w", "dump.tar.gz"],
        &["sysdump", "--all-nodes"],
        &["capture", "bill-1", "-w", "a.pcapng"],
    ];
    for given in table {
        let ran = lab.run(given);
        assert_eq!(ran.code, Some(5), "{given:?}: {}", ran.stderr);
    }
    assert_eq!(lab.files(), ["a.pcapng", "kubeconfig"]);
}

#[test]
fn all_nodes_answer_in_order_with_the_worst_exit_code() {
    let by_node = |executed: &Executed| {
        let is_one = executed.pod.ends_with("one");
        let is_json = executed.words.contains(&"--output=json".to_owned());
        Reply {
            stdout: match (is_json, is_one) {
                (true, _) => b"{\"kind\": \"Status\"}".to_vec(),
                (false, true) => b"bad\n".to_vec(),
                (false, false) => b"good\n".to_vec(),
            },
            stderr: b"usher: a note\n".to_vec(),
            code: Some(u8::from(is_one)),
        }
    };
    let lab = Lab::start(cluster(by_node));
    let ran = lab.run(&["status", "--all-nodes"]);
    assert_eq!(ran.code, Some(1));
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(text, "node one\nbad\n\nnode two\ngood\n");
    let notes = "usher: one: a note\nusher: two: a note\nusher: 2 nodes, 1 with an exit code other than 0\n";
    assert_eq!(ran.stderr, notes);
    let ran = lab.run(&["check", "--all-nodes", "-o", "json"]);
    let reports: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let expected = json!([
        {"node": "one", "exitCode": 1, "report": {"kind": "Status"}},
        {"node": "two", "exitCode": 0, "report": {"kind": "Status"}},
    ]);
    assert_eq!((ran.code, reports), (Some(1), expected));
    let ran = lab.run(&["sysdump", "--all-nodes"]);
    assert_eq!(
        (ran.code, ran.stdout),
        (Some(1), Vec::new()),
        "{}",
        ran.stderr
    );
    let mut names = lab.files();
    names.retain(|name| name.starts_with("usher-sysdump-"));
    assert!(names[0].starts_with("usher-sysdump-one-"), "{names:?}");
    assert_eq!(
        fs::read(lab.folder.path().join(&names[1])).unwrap(),
        b"good\n"
    );
}

/// The command runs here, outside of the runtime that the requests to the API server use.
#[test]
fn a_sysdump_needs_no_cluster() {
    let lab = Lab::start(cluster(replies(0)));
    let ran = lab.run(&["pods", "--file", "/dev/null"]);
    assert!(ran.stderr.contains("not a sysdump"), "{}", ran.stderr);
    assert_eq!(ran.code, Some(5));
}

#[test]
fn one_node_needs_no_choice() {
    let mut cluster = cluster(replies(0));
    cluster.pods.remove(1);
    let lab = Lab::start(cluster);
    assert_eq!(lab.run(&["status"]).code, Some(0));
    assert_eq!(lab.executed().words, ["usher", "status"]);
}
