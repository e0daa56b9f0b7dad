//! The pod that a person means, as whoever answers knows it.

use std::net::IpAddr;

use usher_core::admin::Pod;
use usher_inspect::pod_selector::{self, Candidate, NotOne};

use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
};

/// Whether this is asked of the node, and not of a file, for what a file cannot tell.
///
/// # Errors
/// Where it is asked of a file.
pub(crate) fn reject_file(global: &Global, what: &str) -> Result<(), Failure> {
    match global.file {
        None => Ok(()),
        Some(_) => Err(Failure::new(
            Exit::Usage,
            format!("{what} is about this node as it is now: not with --file"),
        )),
    }
}

/// The pod that is meant.
///
/// # Errors
/// When it is none or several, or nobody can be asked.
pub(crate) async fn resolve_pod(source: &DataSource, given: &str) -> Result<Pod, Failure> {
    if given.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        // Addresses are the kubelet's knowledge, which the agent does not keep.
        return Ok(source.node.find(given).await?.pod);
    }
    let pods = source.pods().await?.items;
    let place = select_pod(given, &pods)?;
    pods.into_iter()
        .nth(place)
        .ok_or_else(|| Failure::unavailable(format!("{given:?} has just ended")))
}

/// The place of the pod that is meant among these.
pub(crate) fn select_pod(given: &str, pods: &[Pod]) -> Result<usize, NotOne> {
    let candidates: Vec<Candidate> = pods.iter().map(candidate).collect();
    pod_selector::choose(given, &candidates)
}

fn candidate(pod: &Pod) -> Candidate {
    let containers = pod.containers.iter();
    Candidate {
        uid: pod.uid.clone(),
        name: pod.name.is_some().then(|| pod.display_name()),
        ips: Vec::new(),
        containers: containers
            .clone()
            .filter_map(|one| one.id.clone())
            .collect(),
        pids: containers.filter_map(|one| one.pid).collect(),
    }
}
