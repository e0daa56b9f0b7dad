//! An agent that is terminated: it removes usher from its node only if its DaemonSet was deleted.

use usher_tests::synthetic::{
    Agent, ApiServer, Node,
    api_server::DaemonSet::{self, Deleted, Exists, Terminates},
};

use crate::host::{Host, entered, has_table};

/// What happens to the objects of the agent before it is terminated.
type Change<'a> = &'a dyn Fn(&ApiServer);

/// Terminates an agent after this change. Returns whether the node is clean. A held connection is released then, and stays
/// held otherwise.
fn terminate(before: DaemonSet, change: impl Fn(&ApiServer)) -> bool {
    terminate_after(before, |server, _agent| change(server))
}

fn terminate_after(before: DaemonSet, change: impl Fn(&ApiServer, &Agent)) -> bool {
    let node = Node::new();
    let host = Host::new(&node);
    let server = ApiServer::start();
    server.set_daemonset(before);
    let agent = host.agent_of(&server, "usher");
    server.wait_requests("get daemonsets", 1);
    let pod = host.held(&agent);
    change(&server, &agent);
    assert_eq!(agent.stop(), Some(0));
    let is_clean = !host.has_entry();
    if is_clean {
        host.assert_clean(&pod);
        // Refused: the sidecar does not listen.
        assert_eq!(pod.client_result("app").connected_ns.len(), 0);
    } else {
        assert!(host.path("bin/usher-cni").exists());
        assert!(has_table(&pod));
    }
    is_clean
}

#[test]
fn nothing_is_left_after_the_deletion() {
    if !entered("deleted::nothing_is_left_after_the_deletion") {
        return;
    }
    let deletions: [(&str, Change<'_>); 5] = [
        ("background", &|server| server.set_daemonset(Deleted)),
        ("foreground", &|server| server.set_daemonset(Terminates)),
        ("Namespace", &|server| server.terminate_namespace("usher")),
        ("ServiceAccount first", &|server| server.invalidate_token()),
        ("roles first", &|server| {
            server.forbid("get daemonsets");
            server.forbid("get nodes");
        }),
    ];
    for (name, delete) in deletions {
        assert!(terminate(Exists, delete), "{name}");
    }
}

#[test]
fn plugin_stays_where_another_agent_may_follow() {
    if !entered("deleted::plugin_stays_where_another_agent_may_follow") {
        return;
    }
    let terminations: [(&str, Change<'_>); 5] = [
        ("an update or a drain", &|_server| {}),
        ("an outage of the API server", &|server| server.away(true)),
        ("a role without the permission", &|server| {
            server.forbid("get daemonsets");
        }),
        ("a token that is rejected once", &|server| {
            server.reject_token_once("get daemonsets");
        }),
        ("an API server that has just started", &|server| {
            server.forbid_once("get daemonsets");
            server.forbid_once("get nodes");
        }),
    ];
    for (name, change) in terminations {
        assert!(!terminate(Exists, change), "{name}");
    }
}

/// An API server that rejects every request proves nothing about the DaemonSet.
#[test]
fn plugin_stays_where_the_token_was_rejected_before() {
    if !entered("deleted::plugin_stays_where_the_token_was_rejected_before") {
        return;
    }
    let rejections: [(&str, Change<'_>); 2] = [
        ("401", &|server| server.invalidate_token()),
        ("403", &|server| {
            server.forbid("get daemonsets");
            server.forbid("get nodes");
        }),
    ];
    for (status, reject) in rejections {
        let is_clean = terminate_after(Exists, |server, agent| {
            reject(server);
            server.end_watches(false);
            agent.wait_metric("usher_node_watch_errors_total", "", |count| count > 0.5);
        });
        assert!(!is_clean, "{status}");
    }
}

#[test]
fn plugin_stays_without_a_daemonset_of_this_name() {
    if !entered("deleted::plugin_stays_without_a_daemonset_of_this_name") {
        return;
    }
    let node = Node::new();
    let host = Host::new(&node);
    let server = ApiServer::start();
    // The DaemonSet has another name.
    let agent = host.agent_of(&server, "usher");
    server.wait_requests("get daemonsets", 1);
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(server.requests_for("get daemonsets").len(), 2);
    assert!(host.has_entry());
    let agent = host.agent_of(&server, "");
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(server.requests_for("get daemonsets").len(), 2);
    assert!(host.has_entry());
}
