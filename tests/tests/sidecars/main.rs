//! The real agent with a stand-in for every kind of sidecar: its requests,
//! the exit codes, and sidecars that misbehave.
//!
//! `usher_tests::synthetic::catalog` defines the behaviour of each kind, with its
//! source. Needs root and a built agent (`cargo build -p usher-agent`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

/// Defines tests of one kind each: a stand-in, the requests that it gets, what
/// ends it and with which code.
macro_rules! quits {
    ($($name:ident: $stand_in:expr, $requests:expr, $by:ident, $code:literal;)*) => {$(
        #[test]
        fn $name() {
            crate::quits($stand_in, &$requests, crate::By::$by, $code);
        }
    )*};
}

mod cloud_sql;
mod dapr;
mod deletion;
mod istio;
mod logs;
mod manner;
mod mesh;
mod stage;
mod vault;

use usher_tests::privilege;
use usher_tests::synthetic::catalog::StandIn;
use usher_tests::synthetic::{Agent, Node, Pod};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Request,
    Term,
}

/// A node in enforce mode; None if tests are skipped here.
fn enforcing() -> Option<Node> {
    privilege::granted().then(|| {
        let node = Node::new();
        // The test counts requests, and a hold would probe the sidecar.
        node.annotate(&[("usher.dev/mode", "enforce"), ("usher.dev/hold", "off")]);
        node.allow_slow_sidecars();
        node
    })
}

/// A Job's app succeeds; the sidecar gets exactly these requests, and exits
/// with this code and for this reason.
fn quits(stand_in: StandIn, requests: &[(u16, &str)], by: By, code: i32) {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let name = stand_in.container.name.clone();
    let pod = node.run(&stand_in.job("job"));
    pod.finish("app", 0);
    assert_eq!(pod.ended(&name).code(), code);
    let line = agent.wait_for("sidecar-ended", &pod.name());
    assert_eq!(line["container"], name.as_str(), "{line}");
    let expected = requests
        .iter()
        .map(|(port, line)| (*port, (*line).to_owned()));
    assert_eq!(received(&pod, &name), expected.collect::<Vec<_>>());
    let signalled = terms(&pod, &name) > 0;
    assert_eq!(signalled, by == By::Term, "{:?}", pod.lines(&name));
    assert!(
        !agent.decisions(&pod.name()).contains(&"gave-up".to_owned()),
        "{:?}",
        agent.decisions(&pod.name())
    );
}

/// Port, method and path of the quit requests to a sidecar.
fn received(pod: &Pod, container: &str) -> Vec<(u16, String)> {
    let requests = pod.requests(container).into_iter();
    let texts = requests.map(|request| {
        let line = request.line.trim_end_matches(" HTTP/1.1").to_owned();
        (request.port, line)
    });
    // A version query changes nothing.
    texts
        .filter(|(_, line)| line != "GET /server_info")
        .collect()
}

/// The number of SIGTERMs to a sidecar.
fn terms(pod: &Pod, container: &str) -> usize {
    let lines = pod.lines(container);
    lines
        .iter()
        .filter(|line| line.starts_with("term "))
        .count()
}
