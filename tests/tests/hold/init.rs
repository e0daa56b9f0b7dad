//! Init containers are never held, because sidecars start after them.

use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::wire::{Capture, Client};
use usher_tests::synthetic::{Agent, ContainerSpec, PodSpec, RestartPolicy};

use crate::{FAR, LATE, client, connected, holding, refused};

fn with_inits(name: &str, inits: &[ContainerSpec]) -> PodSpec {
    let spec = PodSpec::new(name)
        .with(client(FAR))
        .with(mesh::proxy(LATE))
        .announced();
    let inits = inits.iter().cloned();
    inits.fold(spec, PodSpec::init)
}

#[test]
fn hold_starts_after_the_last_init_container() {
    let Some(node) = holding() else { return };
    let _agent = Agent::start(&node);
    let rules = || ContainerSpec::capture(Capture::default());
    // The connection is captured and has no listener yet, so it is refused at once. A hold would be
    // a deadlock, because the sidecar waits for this container.
    let migrates = || ContainerSpec::client("migrate", Client::to(FAR).shrugging());
    let specs = [
        with_inits("rules", &[rules()]),
        with_inits("rules-then-work", &[rules(), migrates()]),
        with_inits("on-failure", &[rules(), migrates()]).policy(RestartPolicy::OnFailure),
    ];
    for pod in node.run_all(&specs) {
        assert_eq!(pod.added(1).code, Some(0));
        connected(&pod.client_result("app"), 1);
        if !pod.name().ends_with("/rules") {
            let mut result = pod.client_result("migrate");
            assert_eq!(std::mem::take(&mut result.code), 0);
            refused(&result);
        }
    }
}

#[test]
fn failed_init_container_is_retried() {
    let Some(node) = holding() else { return };
    let _agent = Agent::start(&node);
    // Refused while there is neither a rule nor a listener; then the sidecar becomes ready.
    let flaky = ContainerSpec::app("flaky");
    let spec = with_inits(
        "flaky",
        &[flaky, ContainerSpec::capture(Capture::default())],
    )
    .policy(RestartPolicy::OnFailure);
    let pod = node.create(&spec);
    std::thread::scope(|scope| {
        scope.spawn(|| pod.wait_running());
        pod.wait_container("flaky");
        let first = pod.id("flaky");
        pod.finish("flaky", 1);
        crate::eventually("a second run", || pod.id("flaky") != first);
        pod.wait_container("flaky");
        pod.finish("flaky", 0);
    });
    connected(&pod.client_result("app"), 1);
}
