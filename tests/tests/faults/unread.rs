//! The agent's log is not read, as while the container runtime is down.

use usher_tests::synthetic::{Agent, ContainerSpec, PodSpec, wire::Manner};

use crate::{SIDECAR, enforcing};

/// The log lines of this many pods more than fill the pipe.
const PODS: u32 = 120;

#[test]
fn unread_log_blocks_nothing_and_is_delivered_later() {
    let Some(node) = enforcing() else { return };
    let agent = Agent::start(&node);
    let specs: Vec<PodSpec> = (0..PODS)
        .map(|n| {
            PodSpec::new(&format!("unread-{n}"))
                .with(ContainerSpec::app("app"))
                .with(ContainerSpec::istio(Manner::Quit))
        })
        .collect();
    let pods = node.run_all(&specs);
    agent.wait_metric("usher_pods", "", |pods| pods >= f64::from(PODS));
    agent.log().pause();
    for pod in &pods {
        pod.finish("app", 0);
    }
    for pod in &pods {
        assert_eq!(pod.ended(SIDECAR).code(), 0);
    }
    agent.wait_metric("usher_decisions_total", "sidecar-ended", |ended| {
        ended >= f64::from(PODS)
    });
    assert_eq!(agent.get("/healthz").0, 200);
    agent.log().resume();
    for pod in &pods {
        agent.wait_for("sidecar-ended", &pod.name());
    }
    assert_eq!(agent.metric("usher_log_lines_dropped_total", ""), 0.0);
}
