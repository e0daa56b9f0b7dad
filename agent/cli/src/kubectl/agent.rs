//! The agents of the cluster, and the one that a command needs.

use k8s_openapi::api::core::v1::Pod;
use usher_inspect::text::list;

use crate::{failure::Failure, global::Exit};

/// The labels that the chart gives the pods of the agent.
pub(super) const SELECTOR: &str = "app.kubernetes.io/name=usher,app.kubernetes.io/component=agent";
/// Number of names that an error lists.
const MAX_LISTED: usize = 12;
/// Limit of the API server for names.
const MAX_NAME: usize = 253;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Agent {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) node: String,
    state: State,
}

/// The state of an agent's pod. The best sorts first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Ready,
    Running,
    /// Another phase of the pod.
    Other(String),
}

impl Agent {
    pub(super) fn new(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.clone());
        let conditions = status.and_then(|status| status.conditions.as_deref());
        let is_ready = conditions
            .unwrap_or_default()
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let state = match phase.as_deref() {
            _ if pod.metadata.deletion_timestamp.is_some() => {
                State::Other("Terminating".to_owned())
            }
            Some("Running") if is_ready => State::Ready,
            Some("Running") => State::Running,
            phase => State::Other(phase.unwrap_or("Unknown").to_owned()),
        };
        Some(Self {
            namespace: pod.metadata.namespace.clone()?,
            name: pod.metadata.name.clone()?,
            node: pod.spec.as_ref()?.node_name.clone()?,
            state,
        })
    }
}

pub(super) fn on_node(agents: Vec<Agent>, node: &str) -> Result<Agent, Failure> {
    let on_node = agents.into_iter().filter(|agent| agent.node == node);
    let best =
        on_node.min_by(|one, other| (&one.state, &one.name).cmp(&(&other.state, &other.name)));
    match best {
        Some(Agent {
            namespace,
            name,
            state: State::Other(phase),
            ..
        }) => Err(Failure::unavailable(format!(
            "the agent of node {node} does not run: pod {namespace}/{name} is {phase} (kubectl describe pod -n {namespace} \
             {name})"
        ))),
        Some(agent) => Ok(agent),
        None => Err(Failure::unavailable(format!(
            "no agent on node {node} (kubectl get pods -A -o wide -l {SELECTOR}); a taint or the node selector of the \
             DaemonSet may exclude the node"
        ))),
    }
}

/// The agent of the only node.
pub(super) fn only(agents: Vec<Agent>) -> Result<Agent, Failure> {
    let nodes = nodes(&agents);
    match &nodes[..] {
        [] => Err(none()),
        [node] => on_node(agents, node),
        nodes => {
            let nodes = list::first(nodes, MAX_LISTED);
            let text = format!(
                "this command is about one node: add --node NODE; nodes with an agent: {nodes}"
            );
            Err(Failure::usage(text))
        }
    }
}

/// A node, and its agent.
pub(super) type OfNode = (String, Result<Agent, Failure>);

/// The agents of all nodes, sorted by node. An agent that does not run becomes an error of its node.
pub(super) fn of_all_nodes(agents: &[Agent]) -> Result<Vec<OfNode>, Failure> {
    let nodes = nodes(agents);
    if nodes.is_empty() {
        return Err(none());
    }
    let of_node = |node: String| {
        let agent = on_node(agents.to_vec(), &node);
        (node, agent)
    };
    Ok(nodes.into_iter().map(of_node).collect())
}

fn none() -> Failure {
    Failure::unavailable(format!(
        "no agent in this cluster: no pod has the labels {SELECTOR}; install usher, or name its namespace with \
         --usher-namespace"
    ))
}

fn nodes(agents: &[Agent]) -> Vec<String> {
    let mut nodes: Vec<String> = agents.iter().map(|agent| agent.node.clone()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// The full name of a pod, and its node.
pub(super) fn node_of(pod: &Pod) -> Result<(String, String), Failure> {
    let metadata = &pod.metadata;
    let [namespace, name] =
        [&metadata.namespace, &metadata.name].map(|part| part.as_deref().unwrap_or_default());
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let node = node.filter(|node| !node.is_empty()).ok_or_else(|| {
        let conditions = pod
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_deref());
        let mut conditions = conditions.unwrap_or_default().iter();
        let why = conditions
            .find(|condition| condition.type_ == "PodScheduled")
            .and_then(|condition| condition.message.as_deref())
            .map(|message| format!(": {message}"));
        let why = why.unwrap_or_default();
        Failure::unavailable(format!(
            "pod {namespace}/{name} is not scheduled to a node yet{why}"
        ))
    })?;
    Ok((format!("{namespace}/{name}"), node))
}

pub(super) fn no_pod(namespace: &str, name: &str) -> Failure {
    Failure::new(
        Exit::PodSelection,
        format!(
            "there is no pod {namespace}/{name} (kubectl get pods -n {namespace}); for a pod that was deleted add --node \
             NODE, the node where it ran"
        ),
    )
}

/// The pod of a namespace with this part of a name.
pub(super) fn by_part(pods: Vec<Pod>, namespace: &str, part: &str) -> Result<Pod, Failure> {
    let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
    let matching = pods.into_iter().filter(|pod| name(pod).contains(part));
    let mut matching: Vec<Pod> = matching.collect();
    match (matching.pop(), &matching[..]) {
        (Some(pod), []) => Ok(pod),
        (None, _) => Err(Failure::new(
            Exit::PodSelection,
            format!(
                "no pod of namespace {namespace} has {part:?} in its name (kubectl get pods -n {namespace}); for a pod \
                 that was deleted add --node NODE, the node where it ran"
            ),
        )),
        (Some(pod), others) => {
            let mut names: Vec<String> = others.iter().chain([&pod]).map(name).collect();
            names.sort_unstable();
            let names = list::first(&names, MAX_LISTED);
            let text = format!("{part:?} matches several pods of namespace {namespace}: {names}");
            Err(Failure::new(Exit::PodSelection, text))
        }
    }
}

/// Whether the API server accepts a text as a name, so that it can be a part of a URL.
pub(super) fn is_name(text: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn agent(name: &str, node: &str, phase: &str, ready: &str) -> Agent {
        let pod = pod(json!({
            "metadata": {"namespace": "usher", "name": name},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
        }));
        Agent::new(&pod).unwrap()
    }

    #[test]
    fn the_best_agent_of_a_node_is_chosen() {
        let agents = vec![
            agent("usher-a", "one", "Running", "False"),
            agent("usher-b", "one", "Running", "True"),
            agent("usher-c", "one", "Failed", "False"),
            agent("usher-d", "two", "Pending", "False"),
        ];
        let table = [
            ("one", Ok("usher-b")),
            ("two", Err("pod usher/usher-d is Pending")),
            ("three", Err("no agent on node three")),
        ];
        for (node, expected) in table {
            match (on_node(agents.clone(), node), expected) {
                (Ok(agent), Ok(name)) => assert_eq!(agent.name, name),
                (Err(failure), Err(text)) => {
                    assert!(failure.text.contains(text), "{failure:?}");
                    assert_eq!(failure.exit, Exit::Unavailable);
                }
                (found, _) => panic!("{node}: {found:?}"),
            }
        }
        let all = of_all_nodes(&agents).unwrap();
        let nodes: Vec<(&str, bool)> = all
            .iter()
            .map(|(node, agent)| (&node[..], agent.is_ok()))
            .collect();
        assert_eq!(nodes, [("one", true), ("two", false)]);
    }

    #[test]
    fn a_command_about_a_node_needs_one() {
        let one = agent("usher-a", "one", "Running", "True");
        let two = agent("usher-b", "two", "Running", "True");
        assert_eq!(only(vec![one.clone()]).unwrap().name, "usher-a");
        let several = only(vec![two, one]).unwrap_err();
        assert_eq!(several.exit, Exit::Usage);
        assert!(
            several.text.ends_with("with an agent: one, two"),
            "{several:?}"
        );
        assert_eq!(only(Vec::new()).unwrap_err().exit, Exit::Unavailable);
        let nodes = (0..14).map(|node| agent("usher", &format!("n{node:02}"), "Running", "True"));
        let many = only(nodes.collect()).unwrap_err();
        assert!(many.text.ends_with("n11 and 2 more"), "{many:?}");
    }

    #[test]
    fn pods_that_are_not_scheduled_have_no_node() {
        let metadata = json!({"namespace": "shop", "name": "report"});
        let bound =
            pod(json!({"metadata": metadata, "spec": {"nodeName": "one", "containers": []}}));
        let expected = ("shop/report".to_owned(), "one".to_owned());
        assert_eq!(node_of(&bound), Ok(expected));
        let unbound = pod(json!({
            "metadata": metadata, "spec": {"containers": []},
            "status": {"conditions": [
                {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"},
            ]},
        }));
        let failure = node_of(&unbound).unwrap_err();
        let text = "pod shop/report is not scheduled to a node yet: 0/3 nodes are available";
        assert_eq!(failure.text, text);
    }

    #[test]
    fn a_part_of_a_name_selects_one_pod() {
        let pods = || {
            ["report-x7k2p", "report-x9", "bill-1"]
                .map(|name| pod(json!({"metadata": {"name": name}})))
                .to_vec()
        };
        let bill = by_part(pods(), "shop", "bill").unwrap();
        assert_eq!(bill.metadata.name.as_deref(), Some("bill-1"));
        for (part, text) in [("report", "report-x7k2p, report-x9"), ("x8", "--node NODE")] {
            let failure = by_part(pods(), "shop", part).unwrap_err();
            assert_eq!(failure.exit, Exit::PodSelection);
            assert!(failure.text.contains(text), "{failure:?}");
        }
        for (text, is) in [
            ("report-1", true),
            ("10.1.0.4", true),
            ("a?b", false),
            ("", false),
            ("../x", false),
        ] {
            assert_eq!(is_name(text), is, "{text}");
        }
    }
}
