//! The requests of the agents to the API server, from its audit log, and the pods that they know.

use std::{collections::BTreeMap, fs};

use serde_json::Value;
use usher_cluster::Member;

use crate::rig::{NAMESPACE, Rig, log};

const ACCOUNT: &str = "system:serviceaccount:usher:usher";
const NODE_OF_TOKEN: &str = "authentication.kubernetes.io/node-name";

pub(crate) fn each_agent_requests_only_its_own_node_and_pods(rig: &Rig) {
    let asked = requests(rig);
    for (node, other) in [(0, 1), (1, 0)].map(|(a, b)| (&rig.nodes[a], &rig.nodes[b])) {
        let mine = &asked[node.name()];
        assert!(
            mine.iter()
                .any(|(verb, uri)| verb == "watch" && is_own(node, uri)),
            "no watch of {}: {mine:?}",
            node.name()
        );
        for (verb, uri) in mine {
            let about_nodes = uri.starts_with("/api/v1/nodes");
            assert!(
                !about_nodes || is_own(node, uri),
                "{} asked for another Node: {verb} {uri}",
                node.name()
            );
            assert!(
                !uri.contains("/pods"),
                "pods are the kubelet's to tell: {uri}"
            );
        }
        lists_no_pod_of(rig, node, other);
    }
}

/// The requests by the node of their token, each with its verb and URI.
fn requests(rig: &Rig) -> BTreeMap<String, Vec<(String, String)>> {
    let text = fs::read_to_string(rig.cluster.audit_log()).unwrap();
    let mut requests: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    // The API server may be writing the last line.
    let (complete, _) = text.rsplit_once('\n').unwrap_or_default();
    for line in complete.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["user"]["username"] != ACCOUNT {
            continue;
        }
        let node = event["user"]["extra"][NODE_OF_TOKEN][0].as_str();
        let word = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let request = (word("verb"), word("requestURI"));
        let node = node.unwrap_or_else(|| panic!("a token of no node: {event}"));
        requests.entry(node.to_owned()).or_default().push(request);
    }
    requests
}

/// Whether a request for Nodes only selects this one.
fn is_own(node: &Member, uri: &str) -> bool {
    let name = node.name();
    let path = format!("/api/v1/nodes/{name}");
    let selector = format!("fieldSelector=metadata.name%3D{name}");
    uri == path
        || uri.starts_with(&format!("{path}?"))
        || uri.split(['?', '&']).any(|part| part == selector)
}

/// The names of the Jobs of this test end with the index of the node.
fn lists_no_pod_of(rig: &Rig, node: &Member, other: &Member) {
    let args = ["-n", NAMESPACE, "get", "pods"];
    let pods = rig.cluster.kubectl_json(&args).unwrap();
    let pods = pods["items"].as_array().unwrap();
    let of = |node: &Member| {
        let mine = pods
            .iter()
            .filter(|pod| pod["spec"]["nodeName"] == node.name());
        let names = mine.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let (mine, others) = (of(node), of(other));
    let lines = log(node);
    let known = |pod: &String| {
        let name = format!("{NAMESPACE}/{pod}");
        lines.iter().any(|line| line["pod"] == name.as_str())
    };
    assert!(!mine.is_empty() && !others.is_empty());
    assert!(mine.iter().any(known), "{} knows its own", node.name());
    assert!(!others.iter().any(known), "{} knows others", node.name());
}
