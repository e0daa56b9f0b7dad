//! Collects the input of an explanation: from the kubelet, the agent, the API server and the kernel.

use std::collections::BTreeMap;

use usher_client::run_dir::namespaces;
use usher_core::{
    admin::{Modes, Origin},
    base::id::PodUid,
    decision::timeline::Entry,
    pod::spec::{Pod, RunState},
    recipe::Version,
    settings::overrides::NamespaceValues,
};
use usher_inspect::{
    explain::{Case, Explanation, Facts, Seen, explain, needs_kubelet_version},
    pod_selector::{self, Candidate, Names},
};

use super::{certificates, kernel};
use crate::{
    data_source::{
        DataSource,
        node::{Node, Survey, Target},
    },
    failure::Failure,
    global::Exit,
};

pub(crate) async fn gather(source: &DataSource, given: &str) -> Result<Explanation, Failure> {
    let node = &source.node;
    let mut gaps = Vec::new();
    let config = node.config(&mut gaps);
    let without_kubelet = |error: &Failure| {
        let text = "cannot explain a pod without the kubelet";
        Failure::new(error.exit, format!("{text}: {}", error.text))
    };
    let survey = node.shared_survey().await?;
    let pods = survey.listed.as_ref().map_err(&without_kubelet)?;
    // The name of a pod that is gone may be a part of another pod's name.
    let (uid, target) = match resolve_pod(&survey, given, Names::Whole, pods) {
        Err(error) if error.exit == Exit::PodSelection => {
            if let Some(gone) = gone_pod(source, &survey, given, Names::Whole) {
                return Ok(gone);
            }
            match resolve_pod(&survey, given, Names::Parts, pods) {
                Err(error) if error.exit == Exit::PodSelection => {
                    return gone_pod(source, &survey, given, Names::Parts).ok_or(error);
                }
                found => found?,
            }
        }
        found => found?,
    };
    let unlisted = || {
        let text = "the kubelet does not list this pod, or usher skips it (usher check)";
        Failure::unavailable(format!("{given:?}: {text}"))
    };
    let pod = pods
        .iter()
        .find(|pod| pod.uid == uid)
        .ok_or_else(unlisted)?;
    let document = node
        .document(&uid)
        .await
        .map_err(|error| without_kubelet(&error))?;
    let facts = document
        .as_deref()
        .and_then(Facts::read)
        .ok_or_else(unlisted)?;
    let kept = namespaces::kept(&node.args.run_dir);
    let namespace = kept.get(&pod.namespace).cloned().unwrap_or_else(|| {
        let name = &pod.namespace;
        gaps.push(format!(
            "annotations and labels of Namespace {name}: no agent has read them"
        ));
        NamespaceValues::default()
    });
    let seen = Seen {
        kubelet: kubelet_version(node, &facts).await,
        native_elsewhere: native_elsewhere(pods, &uid),
        agent: source.origin() == Origin::Agent,
        modes: modes(source, &survey).await,
        held_stops: held_stops(source, &uid).await,
        timeline: timeline(source, &uid).await,
        ..kernel::inspect(node, target.as_ref(), &mut gaps)
    };
    let sockets = seen.sockets.as_deref();
    let seen = Seen {
        certificates: certificates::query(node, target.as_ref(), sockets).await,
        now_ms: node.now_ms(),
        ..seen
    };
    let mut explanation = explain(&Case::new(pod, &facts, &seen, &config, &namespace));
    explanation.unseen.extend(gaps);
    Ok(explanation)
}

/// The selected pod: one with a cgroup, or else one that only the kubelet lists.
fn resolve_pod(
    survey: &Survey,
    given: &str,
    names: Names,
    listed: &[Pod],
) -> Result<(PodUid, Option<Target>), Failure> {
    let error = match survey.target(given, names) {
        Ok(target) => return Ok((target.uid.clone(), Some(target))),
        Err(error) => error,
    };
    if error.exit != Exit::PodSelection {
        return Err(error);
    }
    let candidates: Vec<Candidate> = listed.iter().map(candidate).collect();
    match pod_selector::select(given, names, &candidates) {
        Ok(place) => listed
            .get(place)
            .map(|pod| (pod.uid.clone(), None))
            .ok_or(error),
        Err(_not_one) => Err(error),
    }
}

/// The explanation of a pod that is gone, from the timeline's file. None if present pods have the name, so that an
/// ambiguous name stays an error.
fn gone_pod(
    source: &DataSource,
    survey: &Survey,
    given: &str,
    names: Names,
) -> Option<Explanation> {
    let is_present = |pod: &usher_core::admin::Pod| {
        let name = pod.display_name();
        match names {
            Names::Whole => name.split('/').next_back() == Some(given) || name == given,
            Names::Parts => name.contains(given),
        }
    };
    if survey.pods.iter().any(is_present) {
        return None;
    }
    let mut entries = source.node.recorded();
    entries.retain(|entry| !survey.pods.iter().any(|pod| pod.uid == entry.uid));
    entries.sort_by_key(|entry| entry.at_ms);
    // Keep the newest pod of each name.
    let newest: BTreeMap<&str, &str> = entries
        .iter()
        .map(|entry| (&entry.pod[..], &entry.uid[..]))
        .collect();
    let candidates: Vec<Candidate> = newest
        .iter()
        .map(|(name, uid)| Candidate {
            uid: (*uid).to_owned(),
            name: Some((*name).to_owned()),
            ..Candidate::default()
        })
        .collect();
    let place = pod_selector::select(given, names, &candidates).ok()?;
    let uid = candidates.get(place)?.uid.clone();
    entries.retain(|entry| entry.uid == uid);
    Explanation::of_gone_pod(source.node.now_ms(), &entries)
}

fn candidate(pod: &Pod) -> Candidate {
    let ids = pod.containers.iter();
    let ids = ids.filter_map(|container| container.status.as_ref()?.id.as_ref());
    Candidate {
        uid: pod.uid.to_string(),
        name: Some(pod.display_name()),
        // Another pod may have the address of an ended pod now.
        ips: Vec::new(),
        containers: ids.map(ToString::to_string).collect(),
        pids: Vec::new(),
    }
}

/// Another pod that proves that the kubelet supports native sidecars: without that support, a kubelet waits for the end
/// of an init container before it starts the apps.
fn native_elsewhere(pods: &[Pod], uid: &PodUid) -> Option<String> {
    let runs = |pod: &&Pod| {
        let mut states = pod
            .containers
            .iter()
            .filter_map(|container| container.status.as_ref());
        states.any(|status| status.state == RunState::Running)
    };
    let mut natives = pods
        .iter()
        .filter(|pod| pod.uid != *uid && !pod.native_sidecars.is_empty());
    natives.find(runs).map(Pod::display_name)
}

/// The modes that the agent reports, or else those that it saved.
async fn modes(source: &DataSource, survey: &Survey) -> Option<Modes> {
    if source.origin() == Origin::Agent {
        return Some(source.status().await.ok()?.modes);
    }
    let modes = survey.modes.as_ref()?;
    let settings = [&modes.quit, &modes.hold, &modes.linger];
    Some(Modes {
        limit: settings.into_iter().find_map(|setting| setting.limit),
        ..survey.reported_modes()
    })
}

/// Without an agent no stop signal is held.
async fn held_stops(source: &DataSource, uid: &PodUid) -> usize {
    if source.origin() != Origin::Agent {
        return 0;
    }
    let pods = source.pods().await.map(|pods| pods.items);
    let mut pods = pods.into_iter().flatten();
    let pod = pods.find(|pod| pod.uid == uid.as_str());
    pod.map_or(0, |pod| pod.held_stops)
}

async fn timeline(source: &DataSource, uid: &PodUid) -> Option<Vec<Entry>> {
    let entries = source.timeline(uid.as_str()).await.ok()?.items;
    let is_known = source.origin() == Origin::Agent || !entries.is_empty();
    is_known.then_some(entries)
}

/// The kubelet's version in its Node, if a finding depends on it and the API server replies.
async fn kubelet_version(node: &Node, facts: &Facts) -> Option<Version> {
    if !needs_kubelet_version(facts) || facts.node.is_empty() {
        return None;
    }
    node.kubelet_version(&facts.node).await?.parse().ok()
}
