//! The real agent with hostile pods: the harm of such a pod affects no other pod.
//!
//! In each test pods attack while another one finishes, which is quit by one request as usual, and soon. The
//! containers of the hostile pods run as root with all capabilities: more than most clusters permit.
//!
//! Needs root and a built agent (`cargo build -p usher-agent -p usher-cni`), and for some tests the programs `ip`,
//! `iptables-legacy-restore`, `nft` and `nsenter`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bomb;
mod impostor;
mod legacy_rules;
mod mounts;
mod names;
mod pids;
mod rights;
mod rules;
mod storm;
mod syns;

use std::time::Duration;

use usher_tests::privilege;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::{Manner, Mischief, Program};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};
use usher_tests::wait::slower;

const SIDECAR: &str = "istio-proxy";
/// The hostile container, if it is an app.
const APP: &str = "app";
/// The agent's memory limit here, in KiB: a debug build has 30 MiB and more when idle.
const PEAK_KIB: u64 = 96 * 1024;
/// The number of pods that attack at the same time.
const ATTACKERS: usize = 3;
/// From the exit of another pod's app to the request to its sidecar. It takes milliseconds, and far more than a second on a busy
/// machine now and then. An agent that waits for the attackers takes longer: five seconds for each attempt, with several for each.
const QUIT_LIMIT: Duration = Duration::from_secs(5);

/// A node in enforce mode; None if tests are skipped here.
fn enforcing() -> Option<Node> {
    privilege::granted().then(|| enforced(Node::new()))
}

fn enforced(node: Node) -> Node {
    node.annotate(&[("usher.dev/mode", "enforce")]);
    node.allow_slow_sidecars();
    node
}

/// A hostile app, and a well-behaved sidecar.
fn hostile(name: &str, mischief: Mischief) -> PodSpec {
    PodSpec::new(name)
        .with(ContainerSpec::new(
            APP,
            "registry.example/team/report:7.4.1",
            Program::Mischief(mischief),
        ))
        .with(ContainerSpec::istio(Manner::Quit))
}

/// Runs it until its harm is done.
fn done(node: &Node, spec: &PodSpec) -> Pod {
    let pod = node.create(spec);
    pod.wait_line(APP, "done");
    pod
}

/// Runs several of them at the same time.
fn all_done(node: &Node, spec: impl Fn(&str) -> PodSpec) -> Vec<Pod> {
    let pods: Vec<Pod> = (0..ATTACKERS)
        .map(|number| node.create(&spec(&format!("hostile-{number}"))))
        .collect();
    for pod in &pods {
        pod.wait_line(APP, "done");
    }
    pods
}

/// Ends the app, and expects one request to the sidecar, by POST to the status port, and its exit with 0.
fn finish_and_quit(agent: &Agent, pod: &Pod) {
    pod.finish(APP, 0);
    is_quit(agent, pod);
}

fn is_quit(agent: &Agent, pod: &Pod) {
    assert_eq!(pod.ended(SIDECAR).code(), 0);
    agent.wait_for("sidecar-ended", &pod.name());
    assert_eq!(
        received(pod, SIDECAR),
        ["15020 POST /quitquitquit HTTP/1.1"]
    );
    assert_eq!(terms(pod, SIDECAR), 0);
}

/// A pod that does no harm finishes: its sidecar gets its request at once, in one of three tries, because other tests may
/// need the processors.
fn another_is_quit(node: &Node, agent: &Agent, name: &str) {
    let mut tries = (0..3).map(|number| quit_delay(node, agent, &format!("{name}-{number}")));
    let is_quit = tries.any(|delay| delay < slower(QUIT_LIMIT));
    assert!(is_quit, "{name} waited in each try");
}

fn quit_delay(node: &Node, agent: &Agent, name: &str) -> Duration {
    let pod = node.run(&PodSpec::job(name));
    // Otherwise the kubelet reports the end, a second later.
    let app = pod.pid(APP);
    eventually("the agent to observe the app", || agent.watches(app));
    finish_and_quit(agent, &pod);
    let exit_ns = pod.ended(APP).exit_ns().unwrap();
    Duration::from_nanos(pod.request(SIDECAR).at_ns - exit_ns)
}

/// The agent observes the apps, which takes a second where no process is pid 1 of its container. Once an app has exited
/// unobserved, the agent could mistake another process of the container for it. A runtime kills those processes.
fn observe_apps(agent: &Agent, pods: &[Pod]) {
    for pod in pods {
        let app = pod.pid(APP);
        eventually("the agent to observe the app", || agent.watches(app));
    }
}

/// The requests to a container, with their ports.
fn received(pod: &Pod, container: &str) -> Vec<String> {
    let requests = pod.requests(container).into_iter();
    requests
        .map(|request| format!("{} {}", request.port, request.line))
        .collect()
}

/// The number of SIGTERMs to a container.
fn terms(pod: &Pod, container: &str) -> usize {
    let lines = pod.lines(container);
    lines
        .iter()
        .filter(|line| line.starts_with("term "))
        .count()
}

/// The agent has its usual size, and has not panicked.
fn is_sound(agent: &Agent) {
    let peak = agent.usage().peak_kib;
    assert!(peak < PEAK_KIB, "{peak} KiB");
    let panics = |line: &serde_json::Value| {
        line["text"]
            .as_str()
            .is_some_and(|text| text.contains("panicked"))
    };
    assert_eq!(agent.log().count(panics), 0);
    assert_eq!(agent.get("/healthz").0, 200);
}
