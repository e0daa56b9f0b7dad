//! The kubelet's list of pods is far larger than the memory of the agent's container.
//!
//! The agent starts within the limit, with the list; so does the next agent, with the same list.

use std::sync::LazyLock;

use usher_tests::synthetic::limit::{Controller, Limited};
use usher_tests::synthetic::{Agent, ApiServer, Bulk, Node, PodSpec, process, usher};

use crate::resources::CHART_LIMIT;
use crate::{enforcing, finish_and_quit};

const KIB: usize = 1024;
/// Stands for the name of the served pod.
const POD: &str = "POD";
/// The commands that read the list, and those that read most from the node.
const COMMANDS: [&[&str]; 5] = [
    &["pods"],
    &["check"],
    &["explain", POD],
    &["conns", POD],
    &["sysdump", "-w", "-"],
];

/// 300 MiB: 220 specs that are as long as etcd permits. Some have most of it in fields that usher keeps.
const HOSTILE: Bulk = Bulk {
    pods: 220,
    pod: |number| {
        /// Image, arguments and variables of a container.
        static CONTAINERS: LazyLock<[String; 4]> = LazyLock::new(|| {
            let container = |image: &str, args: &str, env: &str| {
                format!(r#"{{"name":"app","image":"{image}","args":[{args}],"env":[{env}]}}"#)
            };
            let text = |length| "x".repeat(length * KIB);
            let env = format!(r#"{{"name":"E","value":"{}"}}"#, text(128));
            [
                // 180 of these are more than usher keeps.
                container(&text(62), "", &[&env[..]; 10].join(",")),
                // Each of these is more than usher keeps of a pod.
                container(&text(1300), "", ""),
                container("app", &[r#""a""#; 350 * KIB].join(","), ""),
                container("app", &[r#""proxy""#; 160 * KIB].join(","), ""),
            ]
        });
        let kind = (number % 16).saturating_sub(12);
        pod("hostile", number, &CONTAINERS[kind], r#""phase":"Pending""#)
    },
};

/// 300 MiB: 12,000 pods that have finished, as a node has them until the API server deletes them.
const FINISHED: Bulk = Bulk {
    pods: 12_000,
    pod: |number| {
        static CONTAINERS: LazyLock<String> = LazyLock::new(|| {
            let variable =
                |n| format!(r#"{{"name":"VARIABLE_{n}","value":"{}"}}"#, "v".repeat(200));
            let env: Vec<String> = (0..100).map(variable).collect();
            let app = format!(
                r#"{{"name":"app","image":"shop/app:1","env":[{}]}}"#,
                env.join(",")
            );
            format!(r#"{app},{{"name":"istio-proxy","image":"istio/proxyv2:1.26.1"}}"#)
        });
        let ended = r#""state":{"terminated":{"exitCode":0,"reason":"Completed"}}"#;
        let status = format!(
            r#""phase":"Succeeded","containerStatuses":[{{"name":"app",{ended}}},{{"name":"istio-proxy",{ended}}}]"#
        );
        pod("batch", number, &CONTAINERS, &status)
    },
};

fn pod(namespace: &str, number: usize, containers: &str, status: &str) -> String {
    let uid = format!("00000000-0000-4000-8000-{number:012x}");
    let metadata = format!(r#"{{"namespace":"{namespace}","name":"pod-{number}","uid":"{uid}"}}"#);
    [
        r#"{"metadata":"#,
        &metadata,
        r#","spec":{"restartPolicy":"Never","containers":["#,
        containers,
        r#"]},"status":{"#,
        status,
        "}}",
    ]
    .concat()
}

struct Fixture<'test> {
    node: &'test Node,
    agent: &'test Agent,
    server: &'test ApiServer,
    limited: &'test Limited,
    pod: &'test str,
}

/// Two agents, one after the other, within the chart's limit. Both serve an ordinary pod.
#[expect(clippy::print_stdout, reason = "the memory of each agent")]
fn serve(name: &str, bulk: Bulk, check: impl Fn(&Fixture<'_>)) {
    let Some(node) = enforcing() else { return };
    let server = ApiServer::start();
    server.annotate(&[("usher.dev/mode", "enforce")]);
    let limited = Limited::make(Controller::Memory, name).expect("a controller of memory");
    limited.set(CHART_LIMIT);
    node.kubelet().list_also(Some(bulk));
    for name in ["before", "after"] {
        let pod = node.run(&PodSpec::job(name));
        let agent = Agent::start_limited(&node, Some(&server), &limited);
        finish_and_quit(&agent, &pod);
        check(&Fixture {
            node: &node,
            agent: &agent,
            server: &server,
            limited: &limited,
            pod: &pod.name(),
        });
        assert!(!matches!(process::state(agent.pid()), None | Some('Z')));
        println!("agent {name}: at most {} KiB", agent.usage().peak_kib);
        agent.kill();
    }
    assert_eq!(
        limited.kills(),
        0,
        "the kernel killed a process at the limit"
    );
}

#[test]
fn hostile_specs() {
    serve(
        "list-hostile",
        HOSTILE,
        |&Fixture { agent, server, .. }| {
            for reason in ["too-large", "over-budget"] {
                let labels = format!("reason=\"{reason}\"");
                agent.wait_metric("usher_kubelet_skipped_pods_total", &labels, |pods| {
                    pods >= 10.0
                });
                agent.log().wait("a log line about a skipped pod", |line| {
                    (line["reason"] == reason).then_some(())
                });
            }
            let note = server.wait_events("PodsSkipped", |events| {
                let mut notes = events
                    .iter()
                    .filter(|event| event["reason"] == "PodsSkipped");
                Some(notes.next()?["note"].as_str()?.to_owned())
            });
            let begin = "usher does not manage ";
            assert!(
                note.starts_with(begin) && note.contains("pod hostile/pod-"),
                "{note}"
            );
        },
    );
}

#[test]
fn thousands_of_finished_pods() {
    serve("list-finished", FINISHED, |&Fixture { agent, .. }| {
        for reason in ["invalid", "too-large", "over-budget"] {
            let labels = format!("reason=\"{reason}\"");
            assert_eq!(
                agent.metric("usher_kubelet_skipped_pods_total", &labels),
                0.0
            );
        }
    });
}

/// The commands run in the agent's container.
#[test]
fn commands_in_the_container_of_the_agent() {
    serve("list-commands", HOSTILE, |fixture| {
        if fixture.pod.ends_with("before") {
            return;
        }
        for command in COMMANDS {
            let words = command
                .iter()
                .map(|word| if *word == POD { fixture.pod } else { word });
            let words: Vec<&str> = words.collect();
            let ran = usher::on_limited(fixture.node, fixture.limited, &words);
            println!("{words:?}: {:?}, {}", ran.code, ran.stderr);
            // The command was not killed, and had no unexpected error.
            assert!(matches!(ran.code, Some(0 | 1)), "{words:?}: {}", ran.stderr);
            assert!(
                !ran.stderr.contains("panicked"),
                "{words:?}: {}",
                ran.stderr
            );
            let state = process::state(fixture.agent.pid());
            assert!(!matches!(state, None | Some('Z')), "{words:?}");
        }
    });
}
