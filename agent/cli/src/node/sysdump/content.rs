//! Collects the content: first the reports about the node, then those about each pod, then files of the node, so that a
//! size limit omits the long texts.

use std::{future::ready, net::IpAddr, sync::Arc};

use serde_json::Value;
use usher_inspect::{
    pod_selector::Names,
    sysdump::{
        manifest::{self, Container},
        path, pod,
    },
};

use super::{collection::Collection, text};
use crate::{
    data_source::{
        DataSource,
        node::{Survey, Target},
    },
    failure::Failure,
    network::{conns, links, rules},
    node::{check, config, metrics, report},
    pod::{explain, plan},
};

/// Collects everything. The manifest lists data that is not available, so this fails only if a requested pod does not
/// exist.
pub(super) async fn gather(
    source: &mut DataSource,
    only: &[String],
    collection: &mut Collection,
) -> Result<(), Failure> {
    let survey = source.node.survey_with_documents().await.map(Arc::new);
    if let Ok(survey) = &survey {
        source.node.share(Arc::clone(survey), collection.at_ms());
    }
    node(source, collection).await;
    match survey {
        Ok(survey) => {
            for target in targets(&survey, only)? {
                let spec = match &survey.listed {
                    Ok(_pods) => Ok(spec(&survey, &target)),
                    Err(error) => Err(error.text.clone()),
                };
                pod(source, &target, spec, collection).await;
            }
        }
        // Requested pods cannot be found without a survey.
        Err(error) if !only.is_empty() => return Err(error),
        Err(error) => collection.missing(
            "pods".to_owned(),
            "cgroups, /proc and the kubelet".to_owned(),
            &error.text,
        ),
    }
    text::gather(&source.node, collection);
    Ok(())
}

/// The requested pods, or all, by UID.
fn targets(survey: &Survey, only: &[String]) -> Result<Vec<Target>, Failure> {
    let all: Vec<String> = survey.pods.iter().map(|pod| pod.uid.clone()).collect();
    let given = if only.is_empty() { &all } else { only };
    let mut targets = Vec::with_capacity(given.len());
    for given in given {
        match survey.target(given, Names::Parts) {
            Ok(target) => targets.push(target),
            Err(error) if !only.is_empty() => return Err(error),
            // A pod without a valid UID cannot be looked up.
            Err(_nothing) => {}
        }
    }
    targets.sort_by(|one: &Target, other| one.uid.cmp(&other.uid));
    targets.dedup_by(|one, other| one.uid == other.uid);
    Ok(targets)
}

async fn node(source: &DataSource, collection: &mut Collection) {
    let from = source.origin();
    // Boxed: each report is a large future, and all of them would be part of this one.
    let status = Box::pin(source.status()).await;
    if let Ok(status) = &status {
        collection.name_node(&status.node);
    }
    collection.report(None, from, ready(status)).await;
    let pods = Box::pin(source.pods());
    collection.report(None, from, pods).await;
    let settings = Box::pin(config::gather(source));
    collection.report(None, from, settings).await;
    let metrics = Box::pin(metrics::gather(source));
    collection.report(None, from, metrics).await;
    let costs = Box::pin(report::gather(source));
    collection.report(None, from, costs).await;
    let checks = async { check::gather(source, &check::Args::usual()?).await };
    collection.report(None, from, Box::pin(checks)).await;
}

/// Collects the reports about a pod, and the data behind them.
async fn pod(
    source: &DataSource,
    target: &Target,
    spec: Result<Option<Value>, String>,
    collection: &mut Collection,
) {
    let listed = listed(target);
    let (folder, uid) = (listed.folder.clone(), target.uid.to_string());
    collection.name_pod(listed);
    let path = |name: &str| path::document(Some(&folder), name);
    if !collection.has_time() {
        let source = format!("reports about {}", target.pod.display_name());
        return collection.out_of_time(folder.clone(), source);
    }
    let (about, from) = (Some(&folder[..]), source.origin());
    let timeline = Box::pin(source.timeline(&uid));
    collection.report(about, from, timeline).await;
    let explanation = Box::pin(explain::gather(source, &uid));
    collection.report(about, from, explanation).await;
    let plan = Box::pin(plan::gather(source, &uid));
    collection.report(about, from, plan).await;
    let conns = Box::pin(conns::gather(source, &uid, conns::Detail::Full));
    collection.report(about, from, conns).await;
    let rules = Box::pin(rules::gather(source, &uid));
    collection.report(about, from, rules).await;
    let kubelet = "GET /pods of the kubelet".to_owned();
    match spec {
        Ok(Some(spec)) => collection.value(path("kubelet"), kubelet, spec, pod::reduce),
        Ok(None) => {
            let why = "the kubelet does not list the pod, or the pod is too large";
            collection.missing(path("kubelet"), kubelet, why);
        }
        Err(why) => collection.missing(path("kubelet"), kubelet, &why),
    }
    let rtnetlink = "rtnetlink in its network namespace".to_owned();
    match links::list(&source.node, target) {
        Ok(network) => collection.document(path("network"), rtnetlink, &network),
        Err(error) => collection.missing(path("network"), rtnetlink, &error.text),
    }
    let processes = text::processes(&source.node, target);
    let source = "/proc of its containers' processes".to_owned();
    collection.document(path("processes"), source, &processes);
}

/// Spec and status of a pod in the kubelet's list.
fn spec(survey: &Survey, target: &Target) -> Option<Value> {
    let document = survey.documents.get(&target.uid)?;
    serde_json::from_str(document).ok()
}

fn listed(target: &Target) -> manifest::Pod {
    let uid = target.uid.to_string();
    let namespace = target.pod.namespace.clone().unwrap_or_default();
    let name = target.pod.name.clone().unwrap_or_default();
    let containers = target.containers.iter().map(|container| Container {
        name: container.name.clone().unwrap_or_default(),
        id: container.id.to_string(),
        pids: container.processes.iter().map(|pid| pid.0).collect(),
    });
    let ips: &[IpAddr] = if target.pod.host_network {
        &[]
    } else {
        &target.ips
    };
    manifest::Pod {
        folder: path::folder(&namespace, &name, &uid),
        containers: containers.collect(),
        ips: ips.iter().map(ToString::to_string).collect(),
        uid,
        namespace,
        name,
    }
}
