//! `usher watch`.

use std::io::{BufRead, BufReader};
use std::ops::{Deref, DerefMut};
use std::process::{Child, ChildStdout, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, Node, PodSpec, usher};
use usher_tests::wait::{found_within, patience};

use crate::{enforcing, known, run};

/// A process that is killed when the test ends, even if it fails.
struct Running(Child);

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A running `usher watch`.
struct Watch {
    process: Running,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    fn start(node: &Node, arguments: &[&str]) -> Self {
        let mut process = usher::command_on(node)
            .arg("watch")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut watch = Self {
            lines: BufReader::new(process.stdout.take().unwrap()),
            process: Running(process),
        };
        // After this line no decision is missed.
        if !arguments.contains(&"--no-headers") && !arguments.contains(&"json") {
            assert!(watch.line().starts_with("TIME"));
        }
        watch
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    fn interrupt(mut self) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap());
        kill(pid, Signal::SIGINT).unwrap();
        self.process.wait().unwrap().code()
    }
}

#[test]
fn decisions_are_streamed() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    eventually("the agent to answer", || {
        run(&node, &["pods"]).code == Some(0) && run(&node, &["pods"]).stderr.is_empty()
    });
    let mut all = Watch::start(&node, &[]);
    let mut some = Watch::start(
        &node,
        &[
            "followed",
            "--decision",
            "pod-finished",
            "--decision",
            "sidecar-ended",
            "-n",
            "default",
        ],
    );
    let other = node.run(&PodSpec::job("other"));
    let pod = node.run(&PodSpec::job("followed"));
    pod.finish("app", 0);
    other.finish("app", 0);
    agent.wait_for("sidecar-ended", &pod.name());
    let (first, second) = (some.line(), some.line());
    assert!(
        first.contains("default/followed") && first.contains("pod-finished"),
        "{first}"
    );
    assert!(
        second.contains("istio-proxy") && second.contains("sidecar-ended"),
        "{second}"
    );
    let line = all.line();
    assert!(
        line.contains("waiting") || line.contains("not-held"),
        "{line}"
    );
    assert_eq!(some.interrupt(), Some(0));
    assert_eq!(all.interrupt(), Some(0));
}

#[test]
fn part_of_a_name_also_matches_later_pods() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let first = node.run(&PodSpec::job("nightly-1"));
    known(&node);
    let mut watch = Watch::start(&node, &["nightly", "--decision", "pod-finished"]);
    let second = node.run(&PodSpec::job("nightly-2"));
    second.finish("app", 0);
    agent.wait_for("pod-finished", &second.name());
    first.finish("app", 0);
    assert!(watch.line().contains("default/nightly-2"));
    assert!(watch.line().contains("default/nightly-1"));
    assert_eq!(watch.interrupt(), Some(0));
}

#[test]
fn json_prints_one_object_per_line_and_stops_at_count() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    eventually("the agent to answer", || {
        run(&node, &["pods"]).stderr.is_empty()
    });
    let mut watch = Watch::start(
        &node,
        &["--count", "1", "-o", "json", "--decision", "pod-finished"],
    );
    let mut names = (0..).map(|number| format!("counted-{number}"));
    // Only the output shows that it has started.
    found_within(patience(), "a line and the end", || {
        let pod = node.run(&PodSpec::job(&names.next().unwrap()));
        pod.finish("app", 0);
        agent.wait_for("pod-finished", &pod.name());
        watch.process.try_wait().unwrap()
    });
    let line: serde_json::Value = serde_json::from_str(&watch.line()).unwrap();
    assert_eq!(line["decision"], "pod-finished", "{line}");
    assert_eq!(watch.line(), "", "one line");
    assert_eq!(watch.process.wait().unwrap().code(), Some(0));
}

#[test]
fn without_an_agent_the_timeline_file_is_followed() {
    let Some(node) = enforcing() else { return };
    let mut watch = Watch::start(&node, &["later", "--decision", "pod-finished"]);
    let pod = node.run(&PodSpec::job("later"));
    let agent = Agent::start(&node);
    pod.finish("app", 0);
    agent.wait_for("sidecar-ended", &pod.name());
    assert!(watch.line().contains("default/later"));
    let process = &mut watch.process;
    let mut stderr = BufReader::new(process.stderr.take().unwrap());
    let mut notice = String::new();
    stderr.read_line(&mut notice).unwrap();
    assert!(notice.contains("following the timeline's file"), "{notice}");
    assert_eq!(watch.interrupt(), Some(0));
}

#[test]
fn ends_with_standard_input_if_asked_to() {
    let Some(node) = enforcing() else { return };
    let _agent = Agent::start(&node);
    eventually("the agent to answer", || {
        run(&node, &["pods"]).stderr.is_empty()
    });
    let Watch { mut process, lines } = Watch::start(&node, &["--end-with-stdin"]);
    assert_eq!(process.try_wait().unwrap(), None);
    drop(process.stdin.take());
    let status = found_within(patience(), "the end", || process.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    drop(lines);
}

#[test]
fn ends_with_the_agent_or_the_reader() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    eventually("the agent to answer", || {
        run(&node, &["pods"]).stderr.is_empty()
    });
    let mut watch = Watch::start(&node, &[]);
    agent.kill();
    assert_eq!(watch.process.wait().unwrap().code(), Some(5));
    let _agent = Agent::start(&node);
    eventually("the agent to answer", || {
        run(&node, &["pods"]).stderr.is_empty()
    });
    let Watch { mut process, lines } = Watch::start(&node, &[]);
    // No decision follows.
    drop(lines);
    let status = found_within(patience(), "the end", || process.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    let ran = run(&node, &["watch", "--decision", "no-such-decision"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
