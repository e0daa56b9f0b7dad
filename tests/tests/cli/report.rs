//! `usher report`, on pods whose sidecars run on for a known time.

use std::{
    thread,
    time::{Duration, SystemTime},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use usher_tests::{
    privilege,
    synthetic::{
        Agent, ContainerSpec, Node, Pod, PodSpec, runtime::StateDir, spec::RestartPolicy, usher,
        wire::Holding,
    },
    wait::{found_within, patience},
};

use crate::{golden, json as report, run};

const PROXY: &str = "istio-proxy";
/// The number of simultaneous Jobs, and of rounds.
const AT_ONCE: usize = 40;
const ROUNDS: usize = 5;
/// The time that a sidecar runs on after its app.
const RUN_ON: Duration = Duration::from_secs(6);
/// The time that an app runs on after its sidecar.
const GAP: Duration = Duration::from_secs(2);
/// A stop signal that a process ignores. It ends later than it is stopped, as a proxy does that drains.
const WINCH: &str = "28";
/// The delay until the test or the agent observes an exit, on a busy machine.
const DELAY: f64 = 1.0;
/// Hours of sidecars that run on for seconds, as on a busy machine.
const SECONDS: [(&str, &str); 4] = [
    (" 0.001", " 0.000"),
    (" 0.002", " 0.000"),
    (" 0.003", " 0.000"),
    (" 0.004", " 0.000"),
];

fn observing() -> Option<Node> {
    let node = privilege::granted().then(Node::new)?;
    node.annotate(&[("usher.dev/mode", "observe"), ("usher.dev/hold", "off")]);
    Some(node)
}

/// A pod that requests half a core and 256 MiB, half of them for its sidecar.
fn requesting(name: &str, namespace: &str) -> PodSpec {
    let mut spec = PodSpec::job(name);
    namespace.clone_into(&mut spec.namespace);
    for container in &mut spec.containers {
        let requests = json!({"requests": {"cpu": "250m", "memory": "128Mi"}});
        container.fields.insert("resources".to_owned(), requests);
    }
    spec
}

fn started(node: &Node, agent: &Agent, spec: &PodSpec) -> Pod {
    let pod = node.run(spec);
    for container in ["app", PROXY] {
        let pid = pod.pid(container);
        found_within(patience(), "the agent to follow the pod", || {
            agent.watches(pid).then_some(())
        });
    }
    pod
}

fn since(earlier: SystemTime, later: SystemTime) -> f64 {
    later.duration_since(earlier).unwrap().as_secs_f64()
}

fn number(cost: &Value, field: &str) -> f64 {
    cost[field].as_f64().unwrap()
}

/// The least and the most that a time can be. It begins and ends between a request and the observed exit: on a busy
/// machine both may be late.
#[derive(Debug, Clone, Copy, Default)]
struct Truth {
    least: f64,
    most: f64,
}

impl Truth {
    /// The time between two exits, each with the moment of its request and the moment of its observation.
    fn between(first: [SystemTime; 2], second: [SystemTime; 2]) -> Self {
        let least = second[0].duration_since(first[1]).unwrap_or_default();
        Self {
            least: least.as_secs_f64(),
            most: since(first[0], second[1]),
        }
    }

    /// Whether a figure, which is the time divided by this number, is within one per cent.
    fn is_near(self, figure: f64, divisor: f64) -> bool {
        (self.least / divisor * 0.99..=self.most / divisor * 1.01).contains(&figure)
    }

    /// Whether a figure in seconds is at most this much off.
    fn is_within(self, figure: f64, margin: f64) -> bool {
        (self.least - margin..self.most + margin).contains(&figure)
    }
}

/// Does something with each pod, and returns the moments just before.
fn request_each(pods: &[Pod], request: impl Fn(&Pod)) -> Vec<SystemTime> {
    let request = |pod: &Pod| {
        let at = SystemTime::now();
        request(pod);
        at
    };
    pods.iter().map(request).collect()
}

/// The costs in a namespace, once no sidecar runs on.
fn settled(node: &Node, namespace: &str, pods: usize) -> Value {
    found_within(patience(), "all pods to be counted", || {
        let report = report(node, &["report", "-n", namespace]);
        let cost = report["items"].get(0)?.clone();
        let is_settled = cost["pods"] == pods && cost["running"] == 0;
        is_settled.then_some(cost)
    })
}

#[test]
fn jobs_of_known_length_are_counted_within_one_per_cent() {
    let Some(node) = observing() else { return };
    let agent = Agent::start(&node);
    let none = run(&node, &["report"]);
    assert_eq!(none.code, Some(0), "{none:?}");
    assert!(
        none.stdout.starts_with("no sidecar outlived its apps"),
        "{none:?}"
    );
    let mut truth = Truth::default();
    for round in 0..ROUNDS {
        let pods: Vec<Pod> = (0..AT_ONCE)
            .map(|number| {
                let name = format!("job-{round}-{number}");
                started(&node, &agent, &requesting(&name, "shop"))
            })
            .collect();
        let finished = request_each(&pods, |pod| pod.finish("app", 0));
        thread::sleep(RUN_ON);
        if round == 0 {
            let report = report(&node, &["report"]);
            assert_eq!(report["items"][0]["running"], AT_ONCE, "{report}");
        }
        let signalled = request_each(&pods, |pod| pod.signal(PROXY, Signal::SIGTERM));
        for ((pod, finished), signalled) in pods.iter().zip(finished).zip(signalled) {
            let app = [finished, pod.ended("app").at];
            let time = Truth::between(app, [signalled, pod.ended(PROXY).at]);
            truth.least += time.least;
            truth.most += time.most;
        }
    }
    let cost = settled(&node, "shop", AT_ONCE * ROUNDS);
    for (field, divisor) in [
        ("podHours", 3600.0),
        ("cpuHours", 3600.0 * 2.0),
        ("memoryGibHours", 3600.0 * 4.0),
        ("sidecarCpuHours", 3600.0 * 4.0),
        ("sidecarMemoryGibHours", 3600.0 * 8.0),
    ] {
        let figure = number(&cost, field);
        println!("{field}: {figure:.5}, seconds measured from outside: {truth:?}");
        assert!(
            truth.is_near(figure, divisor),
            "{field}: {figure} of {truth:?}"
        );
    }
}

#[test]
fn gap_of_a_deleted_pod_is_counted() {
    let Some(node) = observing() else { return };
    let agent = Agent::start(&node);
    let deployed = |name| requesting(name, "shop").policy(RestartPolicy::Always);
    let pod = started(&node, &agent, &deployed("deleted"));
    // Its sidecar fails, and its app ends: no deletion.
    let other = started(&node, &agent, &deployed("crashing"));
    other.signal(PROXY, Signal::SIGTERM);
    other.ended(PROXY);
    pod.mark_deleted();
    let signalled = SystemTime::now();
    pod.signal(PROXY, Signal::SIGTERM);
    let proxy = [signalled, pod.ended(PROXY).at];
    usher::wait_gap(&node, GAP);
    other.finish("app", 1);
    let finished = SystemTime::now();
    pod.finish("app", 0);
    let truth = Truth::between(proxy, [finished, pod.ended("app").at]);
    drop(pod);
    let figure = found_within(patience(), "the gap", || {
        let report = report(&node, &["report"]);
        let cost = report["items"].get(0)?;
        let gap = number(cost, "sigtermGapSeconds");
        (gap > 0.0).then_some(gap)
    });
    assert!(
        truth.is_within(figure, DELAY),
        "{figure} instead of {truth:?}"
    );
    drop(other);
    thread::sleep(GAP / 4);
    let after = report(&node, &["report"]);
    let gap = number(&after["items"][0], "sigtermGapSeconds");
    assert!(truth.is_within(gap, DELAY), "{after}");
}

/// A pod with two connections from its app to its sidecar.
fn connected(node: &Node, namespace: &str) -> Pod {
    const PORT: &str = "127.0.0.1:15001";
    let proxy = Holding::default().listening(PORT);
    let app = Holding::default().connected(PORT, 2);
    let mut spec = PodSpec::new("connected")
        .with(ContainerSpec::holding_proxy(proxy))
        .with(ContainerSpec::holding("app", app).later())
        .policy(RestartPolicy::Always);
    namespace.clone_into(&mut spec.namespace);
    let pod = node.run(&spec);
    pod.wait_line(PROXY, "holding");
    pod.start("app");
    pod.wait_line("app", "holding");
    pod
}

/// The pod is deleted. Its sidecar receives its stop signal, and ends before the app.
fn end_sidecar_first(node: &Node, state: &StateDir, agent: &Agent, pod: &Pod) {
    let logged = |message: &str| {
        found_within(patience(), message, || {
            let count = agent.log().count(|line| line["message"] == message);
            (count > 0).then_some(())
        });
    };
    logged("observes the stop signal of the container");
    pod.mark_deleted();
    state.kill(pod, PROXY, WINCH).succeeds();
    logged("sampled the traffic of a pod");
    pod.signal(PROXY, Signal::SIGKILL);
    pod.ended(PROXY);
    usher::wait_gap(node, GAP);
    pod.signal("app", Signal::SIGKILL);
    pod.ended("app");
}

#[test]
fn report_of_two_namespaces() {
    let Some(node) = observing() else { return };
    let state = StateDir::below(&node.run_dir());
    let deleted = connected(&node, "shop");
    state.add(&deleted, PROXY);
    let debug = ["--log", "info,usher_agent=debug"].map(str::to_owned);
    let agent = Agent::start_with(&node, &[&[state.flag()][..], &debug].concat());
    end_sidecar_first(&node, &state, &agent, &deleted);
    found_within(patience(), "the open connections", || {
        let report = report(&node, &["report"]);
        (report["items"][0]["openAtStopConnections"] == 2).then_some(())
    });
    for namespace in ["infra", "shop"] {
        let pod = started(&node, &agent, &requesting("brief", namespace));
        pod.finish("app", 0);
        pod.ended("app");
        pod.signal(PROXY, Signal::SIGTERM);
        pod.ended(PROXY);
        settled(&node, namespace, 1);
    }
    let ran = run(&node, &["report", "-o", "wide"]);
    golden("report.txt", &ran.stdout, &SECONDS);
    let dump = node.run_dir().join("dump.tar.gz");
    let path = dump.to_str().unwrap();
    assert_eq!(run(&node, &["sysdump", "-w", path]).code, Some(0));
    let replayed = run(&node, &["report", "-o", "wide", "--file", path]);
    golden("report.txt", &replayed.stdout, &SECONDS);
    drop(agent);
    let alone = run(&node, &["report"]);
    assert_eq!(alone.code, Some(5), "{alone:?}");
    assert!(alone.stderr.contains("this needs the agent"), "{alone:?}");
}
