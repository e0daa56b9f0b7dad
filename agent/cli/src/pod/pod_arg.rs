//! Resolves the POD argument.

use std::net::IpAddr;

use usher_core::admin::Pod;
use usher_inspect::pod_selector::{self, Candidate, Names};

use crate::{data_source::DataSource, failure::Failure, global::Global};

/// Rejects `--file` for a command that needs the live node.
///
/// # Errors
/// With `--file`.
pub(crate) fn reject_file(global: &Global, what: &str) -> Result<(), Failure> {
    match global.file {
        None => Ok(()),
        Some(_) => Err(Failure::usage(format!(
            "{what} needs the live node and does not support --file"
        ))),
    }
}

pub(crate) async fn resolve_pod(
    source: &DataSource,
    given: &str,
    names: Names,
) -> Result<Pod, Failure> {
    let is_ip = given.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    if is_ip || given.parse::<i32>().is_ok() {
        // The agent keeps no IP addresses and only the PIDs of init processes; the survey of the node has all.
        return Ok(source.node.find(given, names).await?.pod);
    }
    let pods = source.pods().await?.items;
    let candidates: Vec<Candidate> = pods.iter().map(candidate).collect();
    let place = pod_selector::select(given, names, &candidates)?;
    pods.into_iter()
        .nth(place)
        .ok_or_else(|| Failure::unavailable(format!("pod {given:?} has just ended")))
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
