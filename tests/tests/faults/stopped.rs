//! An agent without CPU time for a while.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use usher_tests::privilege;
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::wire::{Answer, Effect, Listener, Route, Sidecar};
use usher_tests::synthetic::{Agent, ApiServer, ContainerSpec, Doomed, Node, Pod, PodSpec};

use crate::{enforcing, kernel};

/// The delay between the sidecar's response and its exit: after the agent was stopped, before its timeout.
const DRAINS: Duration = Duration::from_millis(500);
/// The same for an exit after the agent has continued.
const DRAINS_LONG: Duration = Duration::from_millis(10_000);
/// A little more than the agent waits for the worker's reply: 8 s.
const REPLY_OVERDUE: Duration = Duration::from_millis(9_000);
/// A little more than the agent's timeout.
const OVERDUE: Duration = Duration::from_millis(3_500);
const PODS: usize = 10;
/// A sidecar may get no processor for a second. The timer that is overdue is the one for its exit.
const SLOW_REPLY: &str = "ladder: {attempt: 10s}\n";
const ENFORCE: [(&str, &str); 1] = [("usher.dev/mode", "enforce")];

fn job(number: usize, drains: Duration) -> PodSpec {
    let quit = Effect::Quit {
        after: drains,
        code: 0,
    };
    let route = Route::any(Answer::Status(200), quit);
    let sidecar = Sidecar {
        listeners: vec![Listener::new(9091, vec![route])],
        ..Sidecar::default()
    };
    let image = "registry.example/cloud-sql-connectors/cloud-sql-proxy:2.25.3";
    let proxy = ContainerSpec::sidecar("cloud-sql-proxy", image, sidecar)
        .args(&["--quitquitquit", "project:region:db?port=5432"]);
    PodSpec::beside_app(&format!("job-{number}"), proxy)
}

/// The sidecar had exited, so the agent did not act on it and reported no running sidecar.
fn assert_ended_in_time(agent: &Agent, pod: &str) {
    let ended = agent.wait_for("sidecar-ended", pod);
    let decisions = agent.decisions(pod);
    let wrong = ["step-failed", "gave-up"].map(str::to_owned);
    assert!(
        !decisions.iter().any(|decision| wrong.contains(decision)),
        "{decisions:?}"
    );
    // The cgroup of the sidecar may have been removed by then.
    assert_eq!(ended["reason"], kernel::ended_as_requested(), "{ended}");
}

fn wait_overdue(stopped: Instant) {
    eventually("the agent's patience to be over", || {
        stopped.elapsed() > OVERDUE
    });
}

/// When it continues, the timer and the exit are pending at the same time.
#[test]
fn exit_while_the_agent_is_stopped_counts() {
    let Some(node) = enforcing() else { return };
    node.configure(SLOW_REPLY);
    let agent = Agent::start(&node);
    let pods = node.run_all(
        &(0..PODS)
            .map(|number| job(number, DRAINS))
            .collect::<Vec<_>>(),
    );
    for pod in &pods {
        pod.finish("app", 0);
    }
    for pod in &pods {
        agent.wait_for("quit-accepted", &pod.name());
    }
    agent.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    for pod in &pods {
        assert_eq!(pod.ended("cloud-sql-proxy").code(), 0);
    }
    wait_overdue(stopped);
    agent.signal(Signal::SIGCONT);
    for pod in &pods {
        assert_ended_in_time(&agent, &pod.name());
    }
}

/// A response arrives while the agent is stopped, and a timer is due before it. Its sidecar has its whole time to exit.
#[test]
fn response_while_the_agent_is_stopped_counts_from_its_arrival() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let first = node.run(&job(0, DRAINS));
    let second = node.run(&job(1, DRAINS_LONG));
    first.finish("app", 0);
    agent.wait_for("quit-accepted", &first.name());
    agent.signal_worker(Signal::SIGSTOP);
    second.finish("app", 0);
    agent.wait_for("pod-finished", &second.name());
    agent.signal(Signal::SIGSTOP);
    agent.signal_worker(Signal::SIGCONT);
    second.request("cloud-sql-proxy");
    let requested = Instant::now();
    eventually("the patience with the second to be over as well", || {
        requested.elapsed() > REPLY_OVERDUE
    });
    agent.signal(Signal::SIGCONT);
    assert_eq!(second.ended("cloud-sql-proxy").code(), 0);
    for pod in [first, second] {
        assert_ended_in_time(&agent, &pod.name());
    }
}

/// The agent is stopped while it processes the response of the last of three sidecars. Meanwhile `meanwhile` changes
/// their pods.
fn stopped_at_an_answer(meanwhile: impl FnOnce(Vec<Pod>) -> Vec<Pod>) {
    let Some(node) = privilege::granted().then(Node::new) else {
        return;
    };
    let server = ApiServer::start();
    node.configure(SLOW_REPLY);
    node.annotate(&ENFORCE);
    server.annotate(&ENFORCE);
    let agent = Doomed::start(&node, &server, "answer-due#3");
    let pods = node.run_all(&(0..3).map(|number| job(number, DRAINS)).collect::<Vec<_>>());
    let names: Vec<String> = pods.iter().map(Pod::name).collect();
    for pod in &pods {
        pod.finish("app", 0);
    }
    eventually("the third answer", || agent.is_there());
    let stopped = Instant::now();
    for pod in &pods {
        assert_eq!(pod.ended("cloud-sql-proxy").code(), 0);
    }
    let _pods = meanwhile(pods);
    wait_overdue(stopped);
    let agent = agent.resume();
    for name in names {
        assert_ended_in_time(&agent, &name);
    }
}

/// The exit falls between the read of the clock and its use.
#[test]
fn exit_during_a_step_counts() {
    stopped_at_an_answer(|pods| pods);
}

/// The cgroups of all three are gone by then, which is reported at once.
#[test]
fn exits_reported_together_count() {
    stopped_at_an_answer(|pods| {
        drop(pods);
        Vec::new()
    });
}
