//! ADD passes the result on in every case, and reports the pod to the agent.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use usher_core::cni::protocol::Request;

use crate::{
    agent::{self, Then, held, serve},
    call::{Answer, Call, UID, arguments},
    place::Place,
};

/// Far longer than all timeouts here, for busy machines.
const GENEROUS: Duration = Duration::from_secs(20);

/// Results that would change if they were parsed and printed.
const RESULTS: [&str; 6] = [
    "{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"10.1.0.5/24\"}],\"dns\":{}}",
    "{ \"cniVersion\" :\r\n\t\"0.3.1\" ,\"b\" : 1 , \"a\":2, \"a\":3 }",
    "{\"a\":1e400,\"b\":12345678901234567890,\"c\":-0.10,\"d\":1.0E+2,\"e\":123456789012345678901234567890}",
    "{\"\\u0061\":\"\\u00e4\\/\\ud83d\\ude00\\ud800\",\"\u{e4}\":\"\u{1f600}\u{2028}\"}",
    "{}",
    "{\"a\":[[[[[[[[]]]]]]],{\"prevResult\":null}]}",
];

/// The longest timeout, for agents that reply, so that a busy machine cannot exceed it.
const PATIENT: &str = "\"timeout\":\"5s\",";

/// A configuration of this node with a result.
fn stdin(place: &Place, version: &str, more: &str, result: &str) -> String {
    place.conf(&format!(
        "\"cniVersion\":\"{version}\",{more}\"prevResult\":  {result}\n"
    ))
}

fn add(place: &Place, more: &str) -> Answer {
    let call = Call::of_containerd("ADD", &place.netns());
    call.run(stdin(place, "1.0.0", more, RESULTS[0]))
}

/// Asserts that the pod started, and that stderr and the log have one line each with the reason why it is not held.
fn expect_unheld(place: &Place, answer: &Answer, why: &str) {
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(answer.stdout, RESULTS[0]);
    assert!(answer.took < GENEROUS, "{answer:?}");
    let lines: Vec<&str> = answer.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{answer:?}");
    assert!(lines[0].contains("unheld: "), "{answer:?}");
    assert!(lines[0].contains(why), "{why}: {answer:?}");
    assert_eq!(place.log(), lines);
}

#[test]
fn result_is_passed_on_byte_for_byte() {
    let Some(place) = Place::new() else { return };
    for version in ["0.3.1", "0.4.0", "1.0.0", "1.1.0", "9.9.9"] {
        for result in RESULTS {
            let agent = serve(&place.socket(), Then::Reply(held()));
            let call = Call::of_containerd("ADD", &place.netns());
            let answer = call.run(stdin(&place, version, PATIENT, result));
            assert_eq!(
                (answer.code, &answer.stdout[..], &answer.stderr[..]),
                (Some(0), result, "")
            );
            agent.join().unwrap();
            fs::remove_file(place.socket()).unwrap();
        }
    }
    assert_eq!(place.log(), [""; 0]);
}

#[test]
fn agent_receives_the_pod_and_its_namespace() {
    let Some(place) = Place::new() else { return };
    let agent = serve(&place.socket(), Then::Reply(held()));
    add(&place, PATIENT);
    let request = agent.join().unwrap();
    assert_eq!(request.descriptors, [place.netns_id()]);
    let document: Value = serde_json::from_slice(&request.bytes).unwrap();
    let expected = json!({
        "version": 1,
        "namespace": "jobs",
        "name": "job-1",
        "uid": UID,
        "containerId": "0123456789abcdef".repeat(4),
        "ifname": "eth0",
    });
    assert_eq!(document, expected);
    assert!(Request::decode(&request.bytes).is_ok());
}

#[test]
fn replies_that_let_a_pod_start() {
    let Some(place) = Place::new() else { return };
    let not_held = b"{\"version\":1,\"outcome\":\"not-held\",\"reason\":\"no sidecar\",\"new\":[]}";
    let agent = serve(&place.socket(), Then::Reply(not_held.to_vec()));
    let answer = add(&place, PATIENT);
    assert_eq!((&answer.stdout[..], &answer.stderr[..]), (RESULTS[0], ""));
    agent.join().unwrap();
}

#[test]
fn no_agent() {
    let Some(place) = Place::new() else { return };
    let answer = add(&place, PATIENT);
    expect_unheld(&place, &answer, "connect on ");
    assert!(answer.stderr.contains("pod jobs/job-1"), "{answer:?}");
    assert!(answer.stderr.contains("ENOENT"), "{answer:?}");
}

#[test]
fn ended_agent_with_a_remaining_socket() {
    let Some(place) = Place::new() else { return };
    drop(agent::stopped(&place.socket()));
    let answer = add(&place, PATIENT);
    expect_unheld(&place, &answer, "ECONNREFUSED");
}

#[test]
fn invalid_replies() {
    let cases: [(Then, &str); 5] = [
        (Then::Close, "closed "),
        (Then::Reply(b"\0".to_vec()), "message cannot be read"),
        (
            Then::Reply(b"{\"version\":2,\"outcome\":\"held\"}".to_vec()),
            "protocol 2",
        ),
        (Then::Reply(vec![b' '; 20_000]), "20000 bytes"),
        (
            Then::Reply(b"{\"version\":1,\"outcome\":\"failed\",\"reason\":\"no\\nnft\"}".to_vec()),
            "the agent could not hold the pod: no nft",
        ),
    ];
    for (then, why) in cases {
        let Some(place) = Place::new() else { return };
        let agent = serve(&place.socket(), then);
        let answer = add(&place, PATIENT);
        expect_unheld(&place, &answer, why);
        agent.join().unwrap();
    }
}

#[test]
fn silent_agent_costs_the_timeout() {
    let Some(place) = Place::new() else { return };
    let agent = serve(&place.socket(), Then::ReplyLate);
    let answer = add(&place, "\"timeout\":\"300ms\",");
    agent.join().unwrap();
    expect_unheld(&place, &answer, "longer than 300ms");
    assert!(answer.took >= Duration::from_millis(300), "{answer:?}");
}

#[test]
fn stopped_agent_with_a_full_queue_costs_the_timeout() {
    let Some(place) = Place::new() else { return };
    let _full = agent::stopped(&place.socket());
    let answer = add(&place, "\"timeout\":\"300ms\",");
    expect_unheld(&place, &answer, "connect on ");
    assert!(answer.took >= Duration::from_millis(300), "{answer:?}");
}

#[test]
fn socket_of_another_kind() {
    let Some(place) = Place::new() else { return };
    let _listener = std::os::unix::net::UnixListener::bind(place.socket()).unwrap();
    expect_unheld(&place, &add(&place, PATIENT), "EPROTOTYPE");
}

#[test]
fn calls_without_a_pod() {
    type Change = fn(Call) -> Call;
    let cases: [(Change, &str); 8] = [
        (|call| call.without("CNI_ARGS"), "no K8S_POD_NAMESPACE"),
        (
            |call| call.with("CNI_ARGS", "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b c"),
            "is no name",
        ),
        (
            |call| {
                call.with(
                    "CNI_ARGS",
                    "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;K8S_POD_UID=c",
                )
            },
            "is no UID",
        ),
        (|call| call.without("CNI_CONTAINERID"), "CNI_CONTAINERID"),
        (|call| call.without("CNI_NETNS"), "no CNI_NETNS"),
        (|call| call.with("CNI_NETNS", "/run/netns/gone"), "ENOENT"),
        (
            |call| call.with("CNI_NETNS", "/dev/zero"),
            "is not a namespace",
        ),
        (
            |call| call.with("CNI_NETNS", "/proc/self/ns/net"),
            "the node's own namespace",
        ),
    ];
    for (change, why) in cases {
        let Some(place) = Place::new() else { return };
        let call = change(Call::of_containerd("ADD", &place.netns()));
        let answer = call.run(stdin(&place, "1.0.0", PATIENT, RESULTS[0]));
        let why = if why == "ENOENT" { "os error 2" } else { why };
        expect_unheld(&place, &answer, why);
    }
}

#[test]
fn message_that_is_too_long_is_not_sent() {
    let Some(place) = Place::new() else { return };
    let call = Call::of_containerd("ADD", &place.netns()).with("CNI_IFNAME", &"x".repeat(17_000));
    let answer = call.run(stdin(&place, "1.0.0", PATIENT, RESULTS[0]));
    expect_unheld(&place, &answer, "more than 16384");
}

#[test]
fn own_pod_never_waits() {
    let Some(place) = Place::new() else { return };
    let _full = agent::stopped(&place.socket());
    let own = "\"timeout\":\"5s\",\"ownPod\":\"jobs/usher-agent-\",";
    let call = Call::of_containerd("ADD", &place.netns())
        .with("CNI_ARGS", &arguments("usher-agent-x7k2p"));
    let answer = call.run(stdin(&place, "1.0.0", own, RESULTS[0]));
    assert_eq!(
        (answer.code, &answer.stdout[..], &answer.stderr[..]),
        (Some(0), RESULTS[0], "")
    );
    assert!(answer.took < Duration::from_secs(5), "{answer:?}");
    assert_eq!(place.log(), [""; 0]);
}

#[test]
fn invalid_settings_are_logged_and_defaults_are_used() {
    let Some(place) = Place::new() else { return };
    let agent = serve(&place.socket(), Then::Reply(held()));
    let answer = add(&place, "\"timeout\":\"9s\",\"ownPod\":\"x\",");
    agent.join().unwrap();
    assert_eq!(answer.stdout, RESULTS[0]);
    let log = place.log();
    assert_eq!(log.len(), 2, "{answer:?}");
    assert!(log[0].ends_with("used a default: timeout: 9s is longer than 5s"));
    assert_eq!(answer.stderr.lines().collect::<Vec<_>>(), log);
}

#[test]
fn unwritable_log_is_no_error() {
    let Some(place) = Place::new() else { return };
    let conf = format!(
        "{{\"socket\":\"{}\",\"logFile\":\"/proc/none/a.log\",\"prevResult\":{}}}",
        place.socket().display(),
        RESULTS[0]
    );
    let answer = Call::of_containerd("ADD", &place.netns()).run(conf);
    assert_eq!((answer.code, &answer.stdout[..]), (Some(0), RESULTS[0]));
    assert!(answer.stderr.contains("connect on"), "{answer:?}");
}
