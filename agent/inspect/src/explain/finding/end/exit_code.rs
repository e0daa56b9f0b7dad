//! A sidecar with an exit code that fails a pod whose apps succeeded.
//!
//! Kubernetes evaluates the exit codes of all regular containers. Under `Never`, one code other than 0 fails a pod whose
//! apps succeeded, and its Job repeats the work, up to its `backoffLimit`, which is not part of the pod. Under `OnFailure`
//! the kubelet restarts the sidecar, and the pod does not end.

use usher_core::{plan::Sidecar, pod::restart_policy::RestartPolicy, settings::annotation};

use super::{Finding, Id, short};
use crate::explain::{
    Case,
    case::sentence,
    date::clock,
    facts::{Container, Ended, State, non_empty},
};

/// The kubelet's reason of a container that the kernel killed for its memory.
pub(in crate::explain) const OUT_OF_MEMORY: &str = "OOMKilled";
/// 128 and the number of `SIGKILL` and `SIGTERM`.
const SIGNALS: [i64; 2] = [137, 143];

pub(in crate::explain) fn find(case: &Case<'_>) -> Vec<Finding> {
    let failed = case
        .apps()
        .any(|app| app.newest_end().is_some_and(|end| end.code != 0));
    // The result of a deleted pod depends on no exit code.
    if failed || case.pod.deleting || !case.finishes() {
        return Vec::new();
    }
    case.sidecars()
        .filter_map(|(sidecar, container)| {
            let (end, effect) = match (case.policy(&sidecar.name), &container.status.state) {
                (RestartPolicy::Never, State::Ended(end)) => (end, Effect::PodFails),
                (RestartPolicy::OnFailure, _) => {
                    let end = container.newest_end()?;
                    // While the apps run, a restart of the sidecar is desired.
                    let after = end.finished_ms >= case.finished_ms();
                    (case.ends().is_some() && after).then_some((end, Effect::Restarts))?
                }
                _ => return None,
            };
            (end.code != 0).then(|| finding(case, sidecar, container, end, effect))
        })
        .collect()
}

#[derive(Clone, Copy)]
enum Effect {
    PodFails,
    Restarts,
}

fn finding(
    case: &Case<'_>,
    sidecar: &Sidecar,
    container: &Container,
    end: &Ended,
    effect: Effect,
) -> Finding {
    let (name, code) = (&container.name, end.code);
    let apps = match case.ends() {
        Some(_) => "although every app succeeded",
        None => "whatever its apps do",
    };
    let (problem, field) = match effect {
        Effect::PodFails => (
            format!("sidecar {name} ended with exit code {code}, which fails the pod {apps}"),
            "state.terminated",
        ),
        Effect::Restarts => (
            format!(
                "sidecar {name} ended with exit code {code} after its apps, so the kubelet restarts it"
            ),
            "lastState.terminated",
        ),
    };
    let reason = non_empty(&end.reason).unwrap_or("no reason");
    let at = end.finished_ms.map(|at| format!(" at {}", clock(at)));
    let job = case.facts.owner.as_ref().filter(|(kind, _)| kind == "Job");
    let finding = Finding::error(Id::NonzeroExitCode, problem)
        .about(name)
        .because(
            format!("{}.{field}", container.status_path()),
            format!("exitCode {code}, {reason}{}", at.unwrap_or_default()),
        )
        .because("spec.restartPolicy", case.policy(name).to_string())
        .because_any(job.map(|(kind, owner)| {
            let retries = "its backoffLimit, the number of retries, is not on the node";
            (
                format!("metadata.ownerReferences[{kind}]"),
                format!("{}; {retries}", short(owner)),
            )
        }));
    let mut steps = sidecar.ladder.iter();
    let advice = steps
        .find(|ladder_step| ladder_step.code.known().map(i64::from) == Some(code))
        .and_then(|ladder_step| non_empty(&ladder_step.advice));
    match (reason, advice) {
        (OUT_OF_MEMORY, _) => finding.fix(
            "Raise the sidecar's memory limit.",
            format!("resources:\n  limits:\n    memory: 256Mi    # of {name}"),
        ),
        (_, Some(advice)) => finding.fix(
            format!("Make the sidecar end with exit code 0: {advice}."),
            "",
        ),
        (_, None) if SIGNALS.contains(&code) && !case.enforces_quit() => {
            let action = "terminate it by request, which ends it with exit code 0";
            let (remedy, how) = case.enable(action, annotation::QUIT);
            let remedy = sentence(&remedy);
            finding.fix(format!("A signal ended the sidecar. {remedy}"), how)
        }
        (_, None) => {
            let run = match effect {
                Effect::PodFails => "",
                Effect::Restarts => " --previous",
            };
            finding.fix(
                "Make the sidecar end with exit code 0; its log has the cause.",
                format!("{}{run}", case.logs(name)),
            )
        }
    }
}
