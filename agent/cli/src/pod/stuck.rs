//! `usher stuck`: the pods that have done their work and do not end.

use std::sync::Arc;

use serde::Serialize;
use usher_core::admin::{ContainerState, Origin, Pod, PodState, Role};
use usher_inspect::{
    explain::{Explanation, Finding, Id},
    text::{
        printable::clean,
        table::{Cell, Table, Tone},
    },
};

use super::explain::gather;
use crate::{
    data_source::DataSource,
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report, duration_text},
    stderr::print_stderr,
};

/// List the pods that have finished and do not end, with the cause
///
/// A pod is stuck if its app containers have ended for good, and a sidecar runs longer than its termination takes; or
/// if an app container has ended, and another one runs on that may be a sidecar. The cause is the same as that of usher
/// explain, which also has the evidence and the fix.
///
/// Exits with 1 if there is a stuck pod.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only pods with this text in namespace/name
    part: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StuckPods {
    items: Vec<StuckPod>,
    /// Pods that could not be explained, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unexplained: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StuckPod {
    pod: String,
    uid: String,
    node: String,
    since_ms: u64,
    for_ms: u64,
    /// The containers that still run.
    containers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Finding>,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let (origin, pods) = stuck(args, global).await?;
    for pod in &pods.unexplained {
        print_stderr(&clean(pod));
    }
    let exit = match (pods.items.is_empty(), pods.unexplained.is_empty()) {
        (false, _) => Exit::Problem,
        (true, true) => Exit::Success,
        (true, false) => Exit::Unavailable,
    };
    Output::new(global).show(origin, pods)?;
    Ok(exit)
}

async fn stuck(args: &Args, global: &Global) -> Result<(Origin, StuckPods), Failure> {
    let mut source = DataSource::open(global).await?;
    let mut pods = source.pods().await?.items;
    pods.retain(|pod| may_be_stuck(pod) && is_selected(pod, args, global));
    let is_needed = match source.origin() {
        Origin::Agent => !pods.is_empty(),
        // Without an agent only the kubelet knows which containers have ended.
        Origin::Node => true,
        Origin::File => false,
    };
    if is_needed {
        // All pods share one list of the kubelet.
        let survey = Box::pin(source.node.survey_with_documents()).await?;
        if pods.is_empty() {
            survey.listed.map_err(|error| {
                let text = "cannot find stuck pods without the kubelet";
                Failure::new(error.exit, format!("{text}: {}", error.text))
            })?;
        } else {
            let now_ms = source.node.now_ms();
            source.node.share(Arc::new(survey), now_ms);
        }
    }
    let mut stuck = StuckPods {
        items: Vec::new(),
        unexplained: Vec::new(),
    };
    for pod in pods {
        let gathered = Box::pin(gather(&source, &pod.uid));
        match source.answer(Some(&pod.uid), gathered).await {
            Ok(explanation) => stuck.items.extend(StuckPod::new(&explanation)),
            // The pod ended in the meantime. A sysdump lacks it if it is one of a single pod.
            Err(error) if error.exit == Exit::PodSelection && source.origin() != Origin::File => {}
            Err(error) => {
                let name = pod.display_name();
                stuck.unexplained.push(format!("{name}: {}", error.text));
            }
        }
    }
    stuck.items.sort_by_key(|pod| pod.since_ms);
    Ok((source.origin(), stuck))
}

/// Whether an app has ended and another container has not. If so, the pod's explanation decides.
fn may_be_stuck(pod: &Pod) -> bool {
    // The roles of such a pod are not known.
    let is_unknown = pod.state == PodState::Unknown;
    let of = |roles: &'static [Role]| {
        let containers = pod.containers.iter();
        containers.filter(move |one| is_unknown || roles.contains(&one.role))
    };
    let mut others = of(&[Role::App, Role::Sidecar, Role::SelfEnding]);
    !pod.deleting
        && of(&[Role::App]).any(|one| one.state == ContainerState::Exited)
        // The kernel does not show the running containers of gVisor and Kata.
        && others.any(|one| one.state != ContainerState::Exited)
}

fn is_selected(pod: &Pod, args: &Args, global: &Global) -> bool {
    let namespace = global.namespace.as_ref();
    let part = args.part.as_ref();
    namespace.is_none_or(|namespace| pod.namespace.as_ref() == Some(namespace))
        && part.is_none_or(|part| pod.display_name().contains(part))
}

impl StuckPod {
    fn new(explanation: &Explanation) -> Option<Self> {
        let stuck = explanation.stuck.as_ref()?;
        Some(Self {
            pod: explanation.pod(),
            uid: explanation.uid.clone(),
            node: explanation.node.clone(),
            since_ms: stuck.since_ms,
            for_ms: explanation.at_ms.saturating_sub(stuck.since_ms),
            containers: stuck.containers.clone(),
            cause: explanation.cause().cloned(),
        })
    }

    /// The cause in one line.
    fn cause(&self) -> Option<String> {
        let cause = self.cause.as_ref()?;
        let id = cause.id.as_str();
        match (cause.id, cause.evidence.last()) {
            // The problem repeats the other columns; the last evidence has the cause.
            (Id::SidecarStays, Some(evidence)) => {
                Some(format!("{id}: {}: {}", evidence.source, evidence.message))
            }
            _ => Some(format!("{id}: {}", cause.problem)),
        }
    }
}

impl Report for StuckPods {
    const KIND: &'static str = "StuckPods";

    fn table(&self, wide: bool) -> Table {
        let mut columns = vec!["POD", "FOR", "RUNNING", "CAUSE"];
        if wide {
            columns.extend(["FIX", "UID"]);
        }
        let mut table = Table::new(columns);
        for pod in &self.items {
            let mut row = vec![
                pod.pod.clone().into(),
                Cell::new(duration_text(pod.for_ms), Tone::Bad),
                pod.containers.join(",").into(),
                Cell::or_dash(pod.cause()),
            ];
            if wide {
                let remedy = pod.cause.as_ref().map(|cause| cause.remedy.clone());
                row.extend([Cell::or_dash(remedy), pod.uid.clone().into()]);
            }
            table.row(row);
        }
        if self.items.is_empty() && self.unexplained.is_empty() {
            table.lead(Cell::new("no stuck pods", Tone::Good));
        }
        if !self.items.is_empty() {
            let text = "usher explain POD has the evidence and the fix";
            table.note(Cell::new(text, Tone::Faint));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_may_be_stuck_if_an_app_has_ended_and_another_container_has_not() {
        let pod = |others: &[(&str, &str)], deleting: bool| {
            let container = |(role, state): &(&str, &str)| json!({"name": role, "id": null, "role": role, "state": state});
            let mut containers = vec![container(&("app", "exited"))];
            containers.extend(others.iter().map(container));
            let pod = json!({
                "uid": "u", "namespace": "shop", "name": "pod",
                "state": "running", "decision": null, "reason": null,
                "deleting": deleting, "containers": containers,
            });
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        for role in ["app", "sidecar", "self-ending"] {
            assert!(may_be_stuck(&pod(&[(role, "running")], false)), "{role}");
            assert!(may_be_stuck(&pod(&[(role, "unseen")], false)), "{role}");
            assert!(!may_be_stuck(&pod(&[(role, "running")], true)), "{role}");
            assert!(!may_be_stuck(&pod(&[(role, "exited")], false)), "{role}");
        }
        assert!(!may_be_stuck(&pod(&[("native", "running")], false)));
        let mut unknown = pod(&[("other", "running")], false);
        assert!(!may_be_stuck(&unknown));
        unknown.state = PodState::Unknown;
        assert!(may_be_stuck(&unknown));
    }
}
