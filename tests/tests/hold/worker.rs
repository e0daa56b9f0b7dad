//! The worker process ends while connections wait.

use std::time::Duration;

use nix::sys::signal::Signal;
use usher_tests::synthetic::{Agent, ApiServer, clock::eventually};
use usher_tests::wait::slower;

use crate::{armed, connected, has_table, holding, opened, ready, ready_on_command, waits};

const KILLS: u8 = 7;

/// The next worker adopts the tables. Copies are lost, so connections continue with their next retransmission.
#[test]
fn killed_while_connections_wait() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pods = ["first", "second"].map(|name| node.run(&ready_on_command(name)));
    for pod in &pods {
        armed(&agent, pod);
        waits(pod, 1);
    }
    let killed = agent.signal_worker(Signal::SIGKILL);
    agent.wait_metric("usher_worker_exits_total", "", |exits| exits > 0.5);
    agent.worker_after(Some(killed));
    for pod in &pods {
        assert!(has_table(pod));
        ready(pod);
    }
    for pod in &pods {
        connected(&pod.client_result("app"), 1);
        let why = opened(&agent, pod);
        assert!(why.contains("is ready"), "{why}");
    }
    // And the next pod is held as usual.
    let next = node.run(&ready_on_command("next"));
    armed(&agent, &next);
    ready(&next);
    connected(&next.client_result("app"), 1);
}

/// The agent waits longer for each further worker, at last longer than for the reply to a job. The jobs that wait for the
/// worker are not overdue when it starts.
#[test]
fn killed_again_and_again_while_connections_wait() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let deadline = slower(Duration::from_secs(120));
    let pod = node.run(&ready_on_command("first").hold_deadline(deadline));
    armed(&agent, &pod);
    waits(&pod, 1);
    let mut killed = None;
    // The delays are 0, 0.2, 0.4 s and so on, 6.4 s after the last of them. Adopting a table may take 4 s.
    for _ in 0..KILLS {
        agent.worker_after(killed);
        killed = Some(agent.signal_worker(Signal::SIGKILL));
    }
    // This one stays.
    agent.worker_after(killed);
    ready(&pod);
    connected(&pod.client_result("app"), 1);
    let why = opened(&agent, &pod);
    assert!(why.contains("is ready"), "{why}");
    agent.wait_metric("usher_worker_exits_total", "", |exits| {
        (exits - f64::from(KILLS)).abs() < 0.5
    });
}

/// The next worker finds the table that the release did not reach.
#[test]
fn killed_during_the_release() {
    let Some(node) = holding() else { return };
    let server = ApiServer::start();
    server.annotate(&[("usher.dev/hold", "enforce")]);
    let agent = Agent::start_with_api(&node, &server, &[]);
    let mode = |mode: &str| format!("capability=\"hold\",mode=\"{mode}\"");
    agent.wait_metric("usher_mode", &mode("enforce"), |mode| mode > 0.5);
    let deadline = slower(Duration::from_mins(10));
    let pod = node.run(&ready_on_command("first").hold_deadline(deadline));
    armed(&agent, &pod);
    waits(&pod, 1);
    agent.signal_worker(Signal::SIGSTOP);
    ready(&pod);
    server.annotate(&[("usher.dev/hold", "off")]);
    agent.wait_metric("usher_mode", &mode("off"), |mode| mode > 0.5);
    agent.signal_worker(Signal::SIGKILL);
    connected(&pod.client_result("app"), 1);
    eventually("no table", || !has_table(&pod));
}

/// A worker that does not reply is replaced. Its pods are released by the kernel at their deadline at the latest.
#[test]
fn stopped_while_connections_wait() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let deadline = slower(Duration::from_secs(10));
    let pod = node.run(&ready_on_command("first").hold_deadline(deadline));
    armed(&agent, &pod);
    waits(&pod, 1);
    agent.signal_worker(Signal::SIGSTOP);
    ready(&pod);
    agent.wait_metric("usher_worker_exits_total", "", |exits| exits > 0.5);
    connected(&pod.client_result("app"), 1);
    let next = node.run(&ready_on_command("next"));
    armed(&agent, &next);
    ready(&next);
    connected(&next.client_result("app"), 1);
}
