//! A sidecar whose exit code undoes the work of its app.
//!
//! Kubernetes evaluates the exit codes of all regular containers. Under `Never`, one code other than 0 fails a pod whose
//! apps succeeded, and its Job repeats the work, up to its `backoffLimit`, which is not part of the pod. Under `OnFailure`
//! the kubelet restarts the sidecar, and the pod does not end.

use usher_core::{plan::Sidecar, pod::restart_policy::RestartPolicy, settings::annotation};

use super::{Finding, Id, Severity, short};
use crate::explain::{
    Case,
    date::clock,
    facts::{Container, Ended, State},
};

/// The reason of a container that the kernel killed at its memory limit.
const OUT_OF_MEMORY: &str = "OOMKilled";
/// 128 and the number of `SIGKILL` and `SIGTERM`.
const SIGNALS: [i64; 2] = [137, 143];

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let failed = case
        .apps()
        .any(|app| app.newest_end().is_some_and(|end| end.code != 0));
    if failed || !case.finishes() {
        return Vec::new();
    }
    case.sidecars()
        .filter_map(|(sidecar, container)| {
            let (end, effect) = match (case.policy(&sidecar.name), &container.status.state) {
                (RestartPolicy::Never, State::Ended(end)) => (end, Effect::PodFails),
                (RestartPolicy::OnFailure, _) => {
                    let end = container.newest_end()?;
                    // While the app works, a restart repairs a crash.
                    let after = end.finished_ms >= case.finished_ms();
                    (case.ends().is_some() && after).then_some((end, Effect::Restarts))?
                }
                _ => return None,
            };
            (end.code != 0).then(|| finding(case, sidecar, container, end, effect))
        })
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
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
    let apps = if case.ends().is_some() {
        "although every app succeeded"
    } else {
        "whatever its apps do"
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
    let reason = match &end.reason[..] {
        "" => "no reason",
        reason => reason,
    };
    let at = end
        .finished_ms
        .map_or(String::new(), |at| format!(" at {}", clock(at)));
    let mut finding = Finding::new(Id::ExitCodeSpoils, Severity::Error, problem)
        .about(name)
        .because(
            format!("{}.{field}", container.status_path()),
            format!("exitCode {code}, {reason}{at}"),
        )
        .because("spec.restartPolicy", case.policy(name).to_string());
    if let Some((kind, owner)) = case.facts.owner.as_ref().filter(|(kind, _)| kind == "Job") {
        let says = format!(
            "{}; its backoffLimit, the number of retries, is not on the node",
            short(owner)
        );
        finding = finding.because(format!("metadata.ownerReferences[{kind}]"), says);
    }
    let advice = sidecar
        .ladder
        .iter()
        .find(|ladder_step| i64::from(ladder_step.code) == code)
        .map(|ladder_step| ladder_step.advice.as_str())
        .filter(|advice| !advice.is_empty());
    match (&end.reason[..], advice) {
        (OUT_OF_MEMORY, _) => finding.fix(
            "Raise the sidecar's memory limit.",
            format!("resources:\n  limits:\n    memory: 256Mi    # of {name}"),
        ),
        (_, Some(advice)) => finding.fix(
            format!("Make the sidecar end with exit code 0: {advice}."),
            "",
        ),
        (_, None) if SIGNALS.contains(&code) => finding.fix(
            "A signal ended the sidecar. Enable usher to terminate it by request, which ends it with exit code 0.",
            case.enforce(annotation::QUIT),
        ),
        (_, None) => finding.fix(
            "Make the sidecar end with exit code 0; its log has the cause.",
            format!(
                "kubectl -n {} logs {} -c {name}{}",
                case.facts.namespace,
                case.facts.name,
                if effect == Effect::Restarts {
                    " --previous"
                } else {
                    ""
                }
            ),
        ),
    }
}
