//! An impostor at the sidecar's ports: a process of the same pod that bound them first.

use std::net::TcpListener;

use usher_tests::synthetic::wire::{Answer, Effect, Listener, Manner, Program, Route, Sidecar};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

use crate::{
    APP, ATTACKERS, SIDECAR, another_is_quit, enforcing, is_sound, observe_apps, received, terms,
};

const IMPOSTOR: &str = "impostor";

/// A pod with an app whose container has a process on the proxy's ports. It outlives the app, which is possible if the pod
/// shares its pid namespace.
fn taken(node: &Node, name: &str, answer: Answer, effect: Effect) -> Pod {
    let proxy = ContainerSpec::istio(Manner::Quit).refusing();
    let pod = node.run(&PodSpec::beside_app(name, proxy).sharing_processes());
    let routes = vec![Route::any(answer, effect)];
    let listeners = [15_020, 15_000].map(|port| Listener::new(port, routes.clone()));
    let impostor = Sidecar {
        listeners: listeners.into(),
        ..Sidecar::default()
    };
    pod.exec(APP, IMPOSTOR, Program::Sidecar(impostor));
    pod.wait_line(IMPOSTOR, "listening 15000 ");
    pod
}

/// The impostor receives only the sidecar's request. Only the exit of the sidecar counts, so SIGTERM follows.
fn gains_nothing(answer: &Answer, effect: Effect) {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let pods: Vec<Pod> = (0..ATTACKERS)
        .map(|number| taken(&node, &format!("taken-{number}"), answer.clone(), effect))
        .collect();
    another_is_quit(&node, &agent, "before");
    observe_apps(&agent, &pods);
    for pod in &pods {
        pod.finish(APP, 0);
    }
    another_is_quit(&node, &agent, "other");
    for pod in &pods {
        gained_nothing(&agent, pod);
    }
    is_sound(&agent);
}

fn gained_nothing(agent: &Agent, pod: &Pod) {
    assert_eq!(pod.ended(SIDECAR).code(), 0);
    agent.wait_for("sidecar-ended", &pod.name());
    assert_eq!(terms(pod, SIDECAR), 1);
    let received = received(pod, IMPOSTOR);
    assert!(!received.is_empty());
    assert!(
        received
            .iter()
            .all(|line| line.ends_with(" POST /quitquitquit HTTP/1.1")),
        "{received:?}"
    );
    // The number of attempts is small for every response.
    assert!(received.len() <= 6, "{received:?}");
}

#[test]
fn answers_200() {
    gains_nothing(&Answer::Status(200), Effect::Stay);
}

#[test]
fn never_answers() {
    gains_nothing(&Answer::Nothing, Effect::Hang);
}

#[test]
fn streams_without_end() {
    gains_nothing(&Answer::Endless, Effect::Stay);
}

#[test]
fn trickles_a_header() {
    gains_nothing(&Answer::Trickle, Effect::Stay);
}

/// The body of its response to the version query is longer than a message between the worker and the agent.
#[test]
fn reports_a_long_version() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let worker = agent.worker();
    // The specification of the pod is shorter than the message: the worker writes 1e15 in full.
    let members: Vec<String> = (0..8000).map(|n| format!(r#""{n:x}":1e15"#)).collect();
    let body = format!("{{{}}}", members.join(","));
    let route = Route::path("/server_info", Answer::Json(body), Effect::Stay);
    for number in 0..ATTACKERS {
        // Without a tag of a version the agent queries it.
        let mut sidecar =
            ContainerSpec::istio(Manner::Quit).listener(Listener::new(15_000, vec![route.clone()]));
        sidecar.image = format!("registry.example/istio/proxyv2@sha256:{}", "1b".repeat(32));
        let pod = node.run(&PodSpec::beside_app(&format!("long-{number}"), sidecar));
        assert_eq!(pod.request(SIDECAR).line, "GET /server_info HTTP/1.1");
    }
    another_is_quit(&node, &agent, "other");
    assert_eq!(agent.worker(), worker);
    is_sound(&agent);
}

/// The agent does not follow the redirect.
#[test]
fn redirects_to_the_node() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/quitquitquit", listener.local_addr().unwrap());
    gains_nothing(&Answer::Redirect(url), Effect::Stay);
    assert!(
        listener.accept().is_err(),
        "a request followed the redirect"
    );
}

/// A request that followed would arrive at another path.
#[test]
fn redirects_to_itself() {
    let url = "http://127.0.0.1:15000/elsewhere".to_owned();
    gains_nothing(&Answer::Redirect(url), Effect::Stay);
}
