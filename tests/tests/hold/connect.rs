//! Connections that a mesh captures.

use usher_tests::privilege;
use usher_tests::synthetic::catalog::mesh;
use usher_tests::synthetic::wire::{Capture, Client, Listen, Listener, Place, Sidecar};
use usher_tests::synthetic::{Agent, ContainerSpec, PodSpec, RestartPolicy};

use crate::{
    FAR, FAR6, LATE, SIDECAR, armed, client, connected, has_table, holding, late, listens_ns,
    opened, pod, ready, ready_on_command, refused, waits,
};

#[test]
fn first_connection_waits_and_succeeds() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("first"));
    waits(&pod, 1);
    ready(&pod);
    let added = pod.added(1);
    assert_eq!(added.code, Some(0));
    assert!(added.output.contains("\"e0\""), "{added:?}");
    let result = pod.client_result("app");
    connected(&result, 1);
    // Through the proxy, which did not listen before.
    assert_eq!(result.reached, [FAR]);
    assert!(result.connected_ns[0] >= listens_ns(&pod, SIDECAR, 15001));
    let why = opened(&agent, &pod);
    assert!(why.contains("the sidecar is ready"), "{why}");
    assert!(why.contains("1 connection had waited"), "{why}");
    assert!(!has_table(&pod));
}

#[test]
fn without_an_agent_connections_are_refused_and_the_pod_starts() {
    let Some(node) = holding() else { return };
    let pod = node.run(&ready_on_command("unheld"));
    refused(&pod.client_result("app"));
    assert_eq!(pod.added(1).code, Some(0));
    let log = std::fs::read_to_string(node.plugin_log()).unwrap();
    assert!(log.contains("default/unheld"), "{log}");
}

/// Files of its network namespace, such as the list of legacy tables, belong to root of the pod's user namespace. The agent lacks
/// the chart's dropped capabilities, with which root reads all files.
#[test]
fn connection_of_another_user_namespace_is_injected() {
    const DROPPED: &str = "-dac_override,-dac_read_search";
    if !privilege::granted_with(&["setpriv"]) {
        return;
    }
    let Some(node) = holding() else { return };
    let without = ["--bounding-set", "--inh-caps"].map(|set| format!("{set}={DROPPED}"));
    let agent = Agent::start_below(&node, "setpriv", &without);
    let pod = node.run(&ready_on_command("users").own_users());
    waits(&pod, 1);
    ready(&pod);
    connected(&pod.client_result("app"), 1);
    let why = opened(&agent, &pod);
    assert!(why.contains("1 connection had waited"), "{why}");
}

#[test]
fn both_families_and_twenty_at_once() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let clients = [
        ("six", Client::to(FAR6)),
        ("twenty", Client::to(FAR).times(20)),
        ("twenty-six", Client::to(FAR6).times(20)),
    ];
    let specs = clients.clone().map(|(name, client)| {
        pod(
            name,
            ContainerSpec::client("app", client),
            mesh::proxy(Listen::OnCommand),
        )
    });
    let pods = node.run_all(&specs);
    for (pod, (_name, client)) in pods.iter().zip(clients) {
        waits(pod, client.connections);
        ready(pod);
        let result = pod.client_result("app");
        connected(&result, client.connections);
        assert_eq!(result.reached, [client.to.to_string()]);
        let why = opened(&agent, pod);
        let waited = format!("{} connection", client.connections);
        assert!(why.contains(&waited), "{why}");
    }
}

#[test]
fn every_proxy_position_and_restart_policy() {
    let Some(node) = holding() else { return };
    let _agent = Agent::start(&node);
    let first = PodSpec::new("proxy-first")
        .with(mesh::proxy(LATE))
        .with(client(FAR))
        .captured(Capture::default())
        .announced();
    let specs = [
        first,
        late("always").policy(RestartPolicy::Always),
        late("on-failure").policy(RestartPolicy::OnFailure),
        late("shared-pids").sharing_processes(),
        late("own-users").own_users(),
    ];
    for pod in node.run_all(&specs) {
        connected(&pod.client_result("app"), 1);
    }
}

/// A connection that the mesh does not capture is not held, also to a port of the same
/// number on another host.
#[test]
fn uncaptured_connection_is_not_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let server = Sidecar {
        listeners: vec![Listener::original(9999).on(Place::Everywhere)],
        ..Sidecar::default()
    };
    let server = ContainerSpec::sidecar("server", "registry.example/team/server:1", server);
    let near = Client::to("10.7.0.2:9999");
    let same = Client::to("10.7.0.2:15001");
    let rules = Capture {
        excluded: vec![9999, 15001],
        ..Capture::default()
    };
    let spec = ready_on_command("excluded")
        .with(server)
        .with(ContainerSpec::client("near", near).later())
        .with(ContainerSpec::client("same-port", same).later())
        .captured(rules);
    let pod = node.run(&spec);
    armed(&agent, &pod);
    pod.start("near");
    connected(&pod.client_result("near"), 1);
    pod.start("same-port");
    refused(&pod.client_result("same-port"));
    assert!(pod.end_so_far("app").is_none(), "it waits");
    ready(&pod);
    connected(&pod.client_result("app"), 1);
}

/// The proxy's own connections are not held, also to itself.
#[test]
fn proxy_connection_is_not_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let own = ContainerSpec::client("of-the-proxy", Client::to("127.0.0.1:15000"));
    let spec = ready_on_command("own").with(own.user(Capture::PROXY).later());
    let pod = node.run(&spec);
    armed(&agent, &pod);
    pod.start("of-the-proxy");
    refused(&pod.client_result("of-the-proxy"));
    ready(&pod);
    connected(&pod.client_result("app"), 1);
}

#[test]
fn captured_dns_query_is_held() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let query = Client::to("10.7.7.7:53").datagram();
    let rules = Capture {
        dns: true,
        ..Capture::default()
    };
    let app = ContainerSpec::client("app", query);
    let spec = pod("resolves", app, mesh::resolver(Listen::OnCommand)).captured(rules);
    let pod = node.run(&spec);
    armed(&agent, &pod);
    // Without a hold the query would be refused within a millisecond.
    pod.wait_container("app");
    assert!(pod.end_so_far("app").is_none());
    ready(&pod);
    let result = pod.client_result("app");
    connected(&result, 1);
    assert!(result.connected_ns[0] >= listens_ns(&pod, SIDECAR, 15053));
}
