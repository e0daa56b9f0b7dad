//! Sidecars that misbehave: the next step follows in bounded time, and no other pod
//! waits.

use std::time::Duration;

use usher_tests::synthetic::spec::STATUS_PORT;
use usher_tests::synthetic::wire::Manner;
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};
use usher_tests::wait::slower;

use crate::{enforcing, received, terms};

const SIDECAR: &str = "istio-proxy";
/// All steps of Istio's recipe, each with its time to end, on a busy machine.
const BOUND: Duration = Duration::from_secs(30);
/// A signal has as long as the kubelet's default grace period; not here.
const BRIEF_SIGNAL: &str = "ladder: {attempt: 5s, settle: 5s, settleSignal: 2s}\n";

/// A pod with this sidecar and one with a well-behaved one; the agent knows both.
fn pair(node: &Node, agent: &Agent, sidecar: ContainerSpec) -> (Pod, Pod) {
    let bad = node.run(&PodSpec::beside_app("bad", sidecar));
    let good = node.run(&PodSpec::job("good"));
    quits(agent, &node.run(&PodSpec::job("first")));
    (bad, good)
}

/// A good pod finishes and its sidecar gets the request. Returns the time.
fn quits(agent: &Agent, good: &Pod) -> u64 {
    good.finish("app", 0);
    assert_eq!(good.ended(SIDECAR).code(), 0);
    agent.wait_for("sidecar-ended", &good.name());
    good.request(SIDECAR).at_ns
}

/// Both ports misbehave. A good pod finishes meanwhile and gets its request before the
/// next step; SIGTERM remains.
fn gets_sigterm(manner: Manner) {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let sidecar = ContainerSpec::istio(manner).admin(manner);
    let (bad, good) = pair(&node, &agent, sidecar);
    bad.finish("app", 0);
    bad.request(SIDECAR);
    let good_ns = quits(&agent, &good);
    let term = bad.wait_line(SIDECAR, "term ");
    assert_eq!(bad.ended(SIDECAR).code(), 0);
    agent.wait_for("step-failed", &bad.name());
    agent.wait_for("sidecar-ended", &bad.name());
    let requests = bad.requests(SIDECAR);
    let mut ports: Vec<u16> = requests.iter().map(|request| request.port).collect();
    // A request without a reply is repeated.
    ports.dedup();
    assert_eq!(ports, [15_020, 15_000]);
    let second = requests.iter().find(|request| request.port == 15_000);
    assert!(good_ns < second.unwrap().at_ns, "{good_ns} {requests:?}");
    let term_ns: u64 = term.trim_start_matches("term ").parse().unwrap();
    let exit_ns = bad.ended("app").exit_ns().unwrap();
    let took = Duration::from_nanos(term_ns - exit_ns);
    assert!(took < slower(BOUND), "{took:?}");
}

#[test]
fn answers_200_and_stays() {
    gets_sigterm(Manner::IgnoreQuit);
}

#[test]
fn resets() {
    gets_sigterm(Manner::Reset);
}

#[test]
fn streams_without_end() {
    gets_sigterm(Manner::EndlessBody);
}

#[test]
fn trickles_without_end() {
    gets_sigterm(Manner::Trickle);
}

#[test]
fn hangs() {
    gets_sigterm(Manner::Hang);
}

#[test]
fn never_quits() {
    let Some(node) = enforcing() else { return };
    node.configure(BRIEF_SIGNAL);
    let agent = Agent::start(&node);
    let sidecar = ContainerSpec::istio(Manner::IgnoreQuit)
        .admin(Manner::IgnoreQuit)
        .deaf_to_term();
    let (bad, good) = pair(&node, &agent, sidecar);
    bad.finish("app", 0);
    bad.request(SIDECAR);
    let good_ns = quits(&agent, &good);
    let line = agent.wait_for("gave-up", &bad.name());
    assert_eq!(line["container"], SIDECAR);
    let took = Duration::from_secs_f64(line["since_exit_ms"].as_f64().unwrap() / 1000.0);
    assert!(took < slower(BOUND), "{line}");
    let requests = bad.requests(SIDECAR);
    assert_eq!(requests.len(), 2);
    assert!(good_ns < requests[1].at_ns, "{good_ns} {requests:?}");
    assert_eq!(terms(&bad, SIDECAR), 1);
    assert!(bad.end_so_far(SIDECAR).is_none());
    quits(&agent, &node.run(&PodSpec::job("later")));
}

/// The app exits before the sidecar listens; the sidecar gets a request when it does, and
/// no signal.
#[test]
fn listens_late() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let sidecar = ContainerSpec::istio(Manner::Quit).refusing();
    let (bad, good) = pair(&node, &agent, sidecar);
    bad.finish("app", 0);
    agent.wait_for("pod-finished", &bad.name());
    let good_ns = quits(&agent, &good);
    bad.send_line(SIDECAR, "listen");
    assert_eq!(bad.ended(SIDECAR).code(), 0);
    agent.wait_for("sidecar-ended", &bad.name());
    let expected = [(STATUS_PORT, "POST /quitquitquit".to_owned())];
    assert_eq!(received(&bad, SIDECAR), expected);
    assert!(good_ns < bad.request(SIDECAR).at_ns);
    assert_eq!(terms(&bad, SIDECAR), 0);
}
