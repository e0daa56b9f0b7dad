//! A container that keeps a pod running after an app ended: no recipe recognizes it as a sidecar, or it and a sidecar
//! wait for each other.
//!
//! usher terminates sidecars once every app ended. A helper that no recipe recognizes counts as an app, so neither it nor
//! the mesh's proxy is terminated. Only the pod's author knows whether such a container is a helper.

use usher_core::{pod::image, settings::annotation};

use super::{Finding, Id};
use crate::explain::{
    Case,
    case::names,
    facts::{Container, Ended},
};

/// Time for a container to end after another container of a pod with a sidecar.
const GRACE_MS: u64 = 5_000;
/// The same for a pod without a sidecar, where several apps share the work, and for a container that starts its work
/// after another container ended.
const LONG_MS: u64 = 300_000;
/// Katib's metrics collectors, by the end of the image's repository, which a mirror may flatten
/// ([v0.18](https://github.com/kubeflow/katib/tree/v0.18.0/cmd/metricscollector/v1beta1)).
const COLLECTORS: [&str; 2] = ["file-metrics-collector", "tfevent-metrics-collector"];

/// Airflow's executor reads the result of a task from this container, and then terminates it
/// ([pod_manager.py](https://github.com/apache/airflow/blob/main/providers/cncf/kubernetes/src/airflow/providers/cncf/kubernetes/utils/pod_manager.py)).
const XCOM: &str = "airflow-xcom-sidecar";
/// Images of containers that save the results of another container once it has ended: the `wait` container of
/// [Argo Workflows](https://argo-workflows.readthedocs.io/en/latest/workflow-pod-names/), and Flyte's copilot.
const SAVERS: [&str; 3] = ["argoexec", "flytecopilot", "flytecopilot-release"];

/// Images of containers that fetch or render something for the others, and end first where they run once.
const FETCHERS: [&str; 4] = ["consul-template", "git-sync", "vault", "vault-enterprise"];

pub(in crate::explain) fn find(case: &Case<'_>) -> Option<Finding> {
    let (ended, running) = split(case)?;
    let finished = ended.iter().filter_map(|(_, end)| end.finished_ms).max()?;
    let since = case.seen.now_ms.saturating_sub(finished);
    let others = names(case.servants().filter(|sidecar| sidecar.runs()));
    let waits = running.iter().find(|app| waits_for_all(case, app));
    if let Some(waiting) = waits.filter(|_| !others.is_empty() && since > GRACE_MS) {
        return Some(shutdown_deadlock(case, &ended, waiting, &others.join(", ")));
    }
    let follows = running.iter().any(|app| works_after_others(app));
    let grace = if others.is_empty() || follows {
        LONG_MS
    } else {
        GRACE_MS
    };
    // The kubelet terminates native sidecars.
    let sidecars = names(case.running_sidecars());
    (since > grace).then(|| unknown(case, &ended, &running, &sidecars))
}

type Ends<'pod> = Vec<(&'pod Container, &'pod Ended)>;

/// The apps that finished, and the apps that still run; None in any other case.
fn split<'pod>(case: &Case<'pod>) -> Option<(Ends<'pod>, Vec<&'pod Container>)> {
    if case.is_over() || !case.finishes() {
        return None;
    }
    let mut ended: Vec<_> = case
        .apps()
        .filter_map(|app| Some((app, case.ended_for_good(app)?)))
        .collect();
    let running: Vec<_> = case.apps().filter(|app| app.runs()).collect();
    let is_all = ended.len() + running.len() == case.apps().count();
    ended.retain(|(app, _end)| !fetches(app));
    (is_all && !ended.is_empty() && !running.is_empty()).then_some((ended, running))
}

fn fetches(app: &Container) -> bool {
    let mut path = image::repository(&app.image).rsplit('/');
    path.next().is_some_and(|name| FETCHERS.contains(&name))
}

/// When the last finished app ended, and the names of the apps that still run.
pub(in crate::explain) fn kept<'pod>(case: &Case<'pod>) -> Option<(u64, Vec<&'pod str>)> {
    let (ended, running) = split(case)?;
    let finished = ended.iter().filter_map(|(_, end)| end.finished_ms).max()?;
    Some((finished, names(running)))
}

/// The container that `usher.dev/sidecars` could name: the first that still runs after another app ended.
pub(in crate::explain) fn candidate<'pod>(case: &Case<'pod>) -> Option<&'pod str> {
    let (_ended, running) = split(case)?;
    running.first().map(|app| &app.name[..])
}

/// The last element of an image's repository.
fn last_element(app: &Container) -> &str {
    let repository = image::repository(&app.image);
    repository.rsplit('/').next().unwrap_or_default()
}

fn is_collector(app: &Container) -> bool {
    let last = last_element(app);
    COLLECTORS.iter().any(|name| last.ends_with(name))
}

/// Whether a container ends only after every other process of the pod.
fn waits_for_all(case: &Case<'_>, app: &Container) -> bool {
    is_collector(app) && case.facts.shares_processes && app.flag("-w") != Some("false")
}

/// Whether a container starts its work after the others ended, and then ends.
fn works_after_others(app: &Container) -> bool {
    let last = last_element(app);
    app.name == XCOM || is_collector(app) || SAVERS.iter().any(|name| last.ends_with(name))
}

fn with_ends(case: &Case<'_>, finding: Finding, ended: &Ends<'_>) -> Finding {
    ended.iter().fold(finding, |finding, (app, end)| {
        let at = end.finished_ms.map(|at| format!(", {}", case.ago(at)));
        let message = format!("exit code {}{}", end.code, at.unwrap_or_default());
        finding.because(app.status_path(), message)
    })
}

fn list_ended(case: &Case<'_>, ended: &Ends<'_>) -> String {
    let ended = ended.iter().map(|(app, end)| {
        let at = end.finished_ms.map(|at| format!(" {}", case.ago(at)));
        format!("{} ended{}", app.name, at.unwrap_or_default())
    });
    ended.collect::<Vec<_>>().join(", ")
}

fn unknown(
    case: &Case<'_>,
    ended: &Ends<'_>,
    running: &[&Container],
    sidecars: &[&str],
) -> Finding {
    let list = names(running.iter().copied()).join(", ");
    let runs = if running.len() == 1 { "runs" } else { "run" };
    let recognized = "no recipe recognizes it as a sidecar";
    let kept = match &sidecars.join(", ")[..] {
        "" => String::new(),
        sidecars => format!(", so usher does not terminate {sidecars}"),
    };
    let problem = format!(
        "app {}, and {list} {runs} on: {recognized}{kept}",
        list_ended(case, ended)
    );
    let first = running.first().map_or("", |app| &app.name);
    let mut finding = Finding::warning(Id::UnknownHelper, problem).about(first);
    finding = with_ends(case, finding, ended);
    for app in running {
        let message = match app.started_ms() {
            Some(at) => format!(
                "running for {}; image {}",
                case.since(at),
                super::short(&app.image)
            ),
            None => format!("running; image {}", super::short(&app.image)),
        };
        finding = finding.because(app.status_path(), message);
    }
    finding.fix(
        format!("If {list} only serves the other containers, name it as a sidecar. If it still works, wait for its end."),
        Case::template_annotation(annotation::SIDECARS, &list.replace(", ", ",")),
    )
}

fn shutdown_deadlock(
    case: &Case<'_>,
    ended: &Ends<'_>,
    waiting: &Container,
    sidecars: &str,
) -> Finding {
    let name = &waiting.name;
    let problem = format!(
        "app {}, and {name} runs on: it waits until every other process of the pod has ended, that of {sidecars} included, \
         which ends after {name}",
        list_ended(case, ended)
    );
    let finding = Finding::error(Id::ShutdownDeadlock, problem)
        .about(name)
        .because(waiting.path("image"), super::short(&waiting.image));
    let finding = with_ends(case, finding, ended).because("running", sidecars);
    finding.fix(
        "Make the collector wait for its training container only, in katib-config. usher cannot end it earlier without the \
         loss of its report.",
        "runtime:\n  metricsCollectors:\n  - kind: StdOut\n    waitAllProcesses: false",
    )
}
