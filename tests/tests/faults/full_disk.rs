//! The run directory is full: a small file system in a machine of its own.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use usher_tests::privilege;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::{Agent, ApiServer, Node, Pod, PodSpec, machine};

use crate::finish_and_quit;

const QUIT: [(&str, &str); 1] = [("usher.dev/quit", "enforce")];
const BOTH: [(&str, &str); 2] = [("usher.dev/quit", "enforce"), ("usher.dev/hold", "enforce")];
/// More than fit into the partly used pages.
const PODS: usize = 20;

/// A run directory with 256 KiB.
fn small(node: &Node) {
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
        .arg(node.run_dir())
        .status()
        .unwrap();
    assert!(mounted.success());
}

/// Uses all free space.
fn fill(directory: &Path) -> PathBuf {
    let path = directory.join("filler");
    let mut file = File::create(&path).unwrap();
    loop {
        match file.write_all(&[7; 512]) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return path,
            Err(error) => panic!("{error}"),
        }
    }
}

fn knows(agent: &Agent, capability: &str) {
    let labels = format!("capability=\"{capability}\",mode=\"enforce\"");
    agent.wait_metric("usher_mode", &labels, |mode| mode > 0.5);
}

/// An agent on a node with little disk space, in enforce mode by an annotation of the Node.
fn quitting() -> (Node, ApiServer, Agent) {
    let node = Node::new();
    small(&node);
    let server = ApiServer::start();
    server.annotate(&QUIT);
    let agent = Agent::start_with_api(&node, &server, &[]);
    knows(&agent, "quit");
    (node, server, agent)
}

/// The agent logs that it could not write this.
fn complains(agent: &Agent, what: &str) {
    agent.log().wait(what, |line| {
        let message = line["message"].as_str()?;
        let is_it = line["level"] == "WARN" && message.starts_with(what);
        is_it.then_some(())
    });
}

fn kept(node: &Node) -> Value {
    let text = fs::read_to_string(node.run_dir().join("node-annotations.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The timeline's complete lines, and the number of others.
fn journal(node: &Node) -> (Vec<Value>, usize) {
    let text = fs::read_to_string(node.run_dir().join("timeline.jsonl")).unwrap();
    let lines = text.lines().map(serde_json::from_str::<Value>);
    let (whole, torn): (Vec<_>, Vec<_>) = lines.partition(Result::is_ok);
    (whole.into_iter().flatten().collect(), torn.len())
}

#[test]
fn nothing_waits_for_disk_space_and_existing_files_stay_intact() {
    if !privilege::granted()
        || !machine::entered(
            "full_disk::nothing_waits_for_disk_space_and_existing_files_stay_intact",
        )
    {
        return;
    }
    let (node, server, agent) = quitting();
    let before = node.run(&PodSpec::job("before"));
    finish_and_quit(&agent, &before);
    eventually("the mode to be kept", || {
        node.run_dir().join("node-annotations.json").exists()
    });

    let filler = fill(&node.run_dir());
    // A change is applied, and cannot be written.
    server.annotate(&BOTH);
    knows(&agent, "hold");
    complains(&agent, "could not save the Node's annotations and labels");
    assert_eq!(kept(&node)["usher.dev/hold"], Value::Null);
    let specs: Vec<PodSpec> = (0..PODS)
        .map(|n| PodSpec::job(&format!("full-{n}")))
        .collect();
    let pods: Vec<Pod> = node.run_all(&specs);
    for pod in &pods {
        finish_and_quit(&agent, pod);
    }
    complains(&agent, "could not write the timeline's journal");
    assert!(agent.metric("usher_timeline_errors_total", "") >= 1.0);
    // An agent that starts now ignores incomplete files.
    agent.kill();
    let agent = Agent::start_with_api(&node, &server, &[]);
    knows(&agent, "hold");
    let during = node.run(&PodSpec::job("during"));
    finish_and_quit(&agent, &during);

    fs::remove_file(filler).unwrap();
    let (name, _) = (
        during.name(),
        agent.wait_for("sidecar-ended", &during.name()),
    );
    eventually("the journal", || {
        let (lines, torn) = journal(&node);
        let ended = |line: &Value| line["pod"] == *name && line["decision"] == "sidecar-ended";
        torn == 0 && lines.iter().any(ended)
    });
    // The API server sends an update of the Node every few minutes.
    server.annotate(&BOTH);
    eventually("the mode to be kept", || {
        kept(&node)["usher.dev/hold"] == "enforce"
    });
    // The agent may write another file now.
    eventually("no unfinished file", || {
        let entries = fs::read_dir(node.run_dir()).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().file_name());
        !names.any(|name| name.to_str().unwrap().ends_with(".new"))
    });
    agent.kill();
    let agent = Agent::start(&node);
    knows(&agent, "hold");
}

/// Failed writes are counted by file. A valid configuration is written before a broken one could
/// replace it.
#[test]
fn failed_writes_are_counted_and_retried() {
    if !privilege::granted()
        || !machine::entered("full_disk::failed_writes_are_counted_and_retried")
    {
        return;
    }
    let (node, server, agent) = quitting();
    let configuration = node.run_dir().join("config.yaml");
    eventually("the files", || {
        configuration.exists() && node.run_dir().join("node-annotations.json").exists()
    });
    let first = fs::read_to_string(&configuration).unwrap();
    let filler = fill(&node.run_dir());
    server.annotate(&BOTH);
    complains(&agent, "could not save the Node's annotations and labels");
    let good = "excludedNamespaces: [left]\n";
    node.configure(good);
    complains(&agent, "could not save the configuration");
    finish_and_quit(&agent, &node.run(&PodSpec::job("asks")));
    complains(&agent, "could not save the annotations of a Namespace");
    for file in ["node-annotations.json", "config.yaml", "namespaces.json"] {
        let label = format!("file=\"{file}\"");
        let count = agent.metric("usher_run_dir_errors_total", &label);
        assert!(count > 0.5, "{file}: {count}");
    }
    assert_eq!(fs::read_to_string(&configuration).unwrap(), first);
    fs::remove_file(filler).unwrap();
    node.configure("excludedNamespaces: [\n");
    eventually("the last good configuration", || {
        fs::read_to_string(&configuration).unwrap() == good
    });
}
