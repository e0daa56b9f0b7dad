//! `usher quit`, `usher hold`, `usher release`.

use usher_tests::synthetic::catalog::{cloud_sql, mesh};
use usher_tests::synthetic::clock::eventually;
use usher_tests::synthetic::usher::Ran;
use usher_tests::synthetic::wire::{Capture, Client, Listen, Program};
use usher_tests::synthetic::{Agent, ContainerSpec, Node, Pod, PodSpec};

use crate::{all_run, answer, privilege, rules, run};

const SIDECAR: &str = "istio-proxy";
/// A remote address without a listener.
const FAR: &str = "10.7.7.7:8080";
/// A program in the app's container that starts later.
const CLIENT: &str = "client";

/// A node in this mode.
fn node(mode: &str) -> Option<Node> {
    let node = privilege::granted_with(&["nft", "nsenter"]).then(Node::new)?;
    node.annotate(&[("usher.dev/mode", mode)]);
    Some(node)
}

/// Starts an agent, and waits until it knows the existing pods.
fn agent(node: &Node) -> Agent {
    let agent = Agent::start(node);
    let knows = || {
        let pods = run(node, &["pods", "--all", "-o", "json"]).stdout;
        let pods: serde_json::Value = serde_json::from_str(&pods).unwrap_or_default();
        let items = pods["items"].as_array().cloned().unwrap_or_default();
        // A pod without containers has a sandbox.
        let runs = |pod: &serde_json::Value| {
            let mut containers = pod["containers"].as_array().into_iter().flatten();
            containers.any(|container| container["state"] == "running")
        };
        pods["from"] == "agent"
            && !items.is_empty()
            && items.iter().all(|pod| pod["name"].is_string() && runs(pod))
    };
    eventually("the agent to know the pods", knows);
    agent
}

/// The request was rejected, for this reason.
fn refused(ran: &Ran, why: &str) {
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains(why), "{ran:?}");
    assert_eq!(ran.stdout, "", "{ran:?}");
}

/// An operator's request, as the log records it.
fn order_of(agent: &Agent, pod: &Pod) -> String {
    let line = agent.wait_for("operator-request", &pod.name());
    line["reason"].as_str().unwrap().to_owned()
}

/// A pod that a mesh captures, with a sidecar that becomes ready on command.
fn captured(name: &str, app: ContainerSpec) -> PodSpec {
    PodSpec::new(name)
        .with(app)
        .with(mesh::proxy(Listen::OnCommand))
        .captured(Capture::default())
        .announced()
}

#[test]
fn quit_works_in_observe_mode_and_despite_an_opt_out() {
    let Some(node) = node("observe") else { return };
    let spec = PodSpec::job("manual").annotation("usher.dev/quit", "false");
    let pod = node.run(&spec);
    let agent = agent(&node);
    all_run(&node);
    refused(
        &run(&node, &["quit", "manual"]),
        "app container app runs; --force overrides this",
    );
    pod.finish("app", 0);
    agent.wait_for("skipped", &pod.name());
    let dry = answer(&node, &["quit", "manual", "--dry-run"]);
    assert!(
        dry.contains("quit (dry run): terminated: istio-proxy by POST :15020/quitquitquit"),
        "{dry}"
    );
    assert!(pod.end_so_far(SIDECAR).is_none());
    let stdout = answer(&node, &["quit", pod.uid(), "--wait=30s"]);
    assert!(
        stdout.contains("although the node's mode is observe"),
        "{stdout}"
    );
    assert_eq!(pod.ended(SIDECAR).code(), 0);
    let noted = order_of(&agent, &pod);
    assert!(
        noted.starts_with("quit, requested by uid 0, pid "),
        "{noted}"
    );
    agent.wait_for("sidecar-ended", &pod.name());
    let again = answer(&node, &["quit", "manual"]);
    assert!(again.contains("none of its sidecars runs"), "{again}");
}

#[test]
fn forced_quit_works_while_an_app_runs_and_where_it_fails_the_pod() {
    let Some(node) = node("enforce") else { return };
    let running = node.run(&PodSpec::job("running"));
    let failing = node.run(&cloud_sql::v2().job("failing"));
    let agent = agent(&node);
    all_run(&node);
    let stdout = answer(&node, &["quit", "running", "--force", "--wait"]);
    assert!(
        stdout.contains("although app container app runs"),
        "{stdout}"
    );
    assert_eq!(running.ended(SIDECAR).code(), 0);
    assert!(running.end_so_far("app").is_none());
    failing.finish("app", 0);
    agent.wait_for("gave-up", &failing.name());
    let ran = run(&node, &["quit", "failing"]);
    refused(&ran, "exit code 143");
    let ran = run(
        &node,
        &["quit", "failing", "--force", "--wait", "-o", "json"],
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let reply: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let step = &reply["steps"][0];
    assert_eq!(step["exitCode"], 143, "{reply}");
    assert!(
        step["note"].as_str().unwrap().starts_with("forced: "),
        "{reply}"
    );
    assert_eq!(
        (&reply["kind"], &reply["answer"]),
        (&"OperatorReply".into(), &"taken".into())
    );
}

#[test]
fn quit_wait_reports_its_timeout() {
    let Some(node) = node("observe") else { return };
    let deaf = mesh::proxy(Listen::OnCommand).deaf_to_term();
    let pod = node.run(&PodSpec::beside_app("deaf", deaf));
    let _agent = agent(&node);
    pod.finish("app", 0);
    eventually("the end of the app", || {
        run(&node, &["quit", "deaf", "--dry-run"]).code == Some(0)
    });
    let ran = run(&node, &["quit", "deaf", "--wait=50ms"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("still running after "), "{ran:?}");
}

#[test]
fn operator_holds_and_releases_a_pod() {
    let Some(node) = node("observe") else { return };
    let app = ContainerSpec::client("app", Client::to(FAR)).later();
    let mut spec = captured("held", app);
    spec.containers[1] = spec.containers[1].clone().later();
    let pod = node.create(&spec);
    let agent = agent(&node);
    let stdout = answer(&node, &["hold", "held"]);
    assert!(stdout.contains("connections to :15001 wait"), "{stdout}");
    agent.wait_for("hold-armed", &pod.name());
    let again = answer(&node, &["hold", "held"]);
    assert!(again.contains("wait already"), "{again}");
    pod.start("app");
    pod.start(SIDECAR);
    pod.wait_container(SIDECAR);
    let dry = answer(&node, &["release", "held", "--dry-run"]);
    assert!(
        dry.contains("release (dry run): releases connections to :15001"),
        "{dry}"
    );
    // The connection waits until the sidecar is ready, as in enforce mode.
    pod.send_line(SIDECAR, "listen");
    let result = pod.client_result("app");
    assert_eq!((result.code, result.failed.len()), (0, 0), "{result:?}");
    agent.wait_for("hold-released", &pod.name());
    let over = answer(&node, &["release", "held"]);
    assert!(over.contains("nothing is held"), "{over}");
    let pod = node.run(&captured("released", ContainerSpec::app("app")));
    // The agent may not have read the pod's spec.
    eventually("the agent to know the pod", || {
        run(&node, &["hold", "released"]).code == Some(0)
    });
    agent.wait_for("hold-armed", &pod.name());
    let stdout = answer(&node, &["release", "released"]);
    assert!(
        stdout.contains("releases connections to :15001"),
        "{stdout}"
    );
    let line = agent.wait_for("hold-released", &pod.name());
    assert!(
        line["reason"]
            .as_str()
            .unwrap()
            .starts_with("an operator released it"),
        "{line}"
    );
}

#[test]
fn late_hold_applies_to_new_connections() {
    let Some(node) = node("off") else { return };
    let pod = node.run(&captured("late", ContainerSpec::app("app")));
    let agent = agent(&node);
    all_run(&node);
    let stdout = answer(&node, &["hold", "late"]);
    assert!(
        stdout.contains("existing connections are not changed"),
        "{stdout}"
    );
    agent.wait_for("hold-armed", &pod.name());
    let rules = answer(&node, &["rules", "late"]);
    assert!(
        rules.contains("elements = { 15001 timeout 30s }"),
        "{rules}"
    );
    pod.exec("app", CLIENT, Program::Client(Client::to(FAR)));
    eventually("the connection to wait", || dropped(&pod) > 0);
    assert!(pod.end_so_far(CLIENT).is_none());
    pod.send_line(SIDECAR, "listen");
    let result = pod.client_result(CLIENT);
    assert_eq!(result.failed, [], "{result:?}");
    let listening = pod.wait_line(SIDECAR, &format!("listening {} ", mesh::READY_PORT));
    let listens_ns: u64 = listening.rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(result.connected_ns.len(), 1, "{result:?}");
    assert!(result.connected_ns[0] >= listens_ns, "{result:?}");
    let line = agent.wait_for("hold-released", &pod.name());
    assert!(
        line["reason"]
            .as_str()
            .unwrap()
            .starts_with("the sidecar is ready"),
        "{line}"
    );
    let rules = answer(&node, &["rules", "late"]);
    assert!(rules.contains("no table inet usher"), "{rules}");
}

/// The packets that the table has dropped.
fn dropped(pod: &Pod) -> usize {
    let table = rules::list(pod);
    let counters = table.split("counter packets ").skip(1);
    let packets = counters.filter_map(|counter| counter.split(' ').next()?.parse::<usize>().ok());
    packets.sum()
}

#[test]
fn missing_agents_and_pods_are_reported() {
    let Some(node) = node("enforce") else { return };
    let _pod = node.run(&PodSpec::job("alone"));
    for command in ["quit", "hold", "release"] {
        let ran = run(&node, &[command, "alone"]);
        assert_eq!(ran.code, Some(5), "{ran:?}");
        assert!(ran.stderr.contains("this needs the agent"), "{ran:?}");
    }
    let _agent = agent(&node);
    for command in ["quit", "hold", "release", "plan", "rules"] {
        let ran = run(&node, &[command, "absent"]);
        assert_eq!(ran.code, Some(4), "{ran:?}");
        assert!(ran.stderr.contains("/alone"), "{ran:?}");
    }
    let ran = run(&node, &["quit", "alone", "--dry-run", "--wait"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
