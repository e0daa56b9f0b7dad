//! A sidecar whose exit code undoes the work of its app.
//!
//! Kubernetes counts the codes of all regular containers. Under `Never` one code other than 0 makes a pod that succeeded a
//! failed one, and its Job does the work again, up to its `backoffLimit`, which is not part of the pod. Under `OnFailure`
//! the sidecar is started again, and the pod does not end.

use usher_core::{plan::Sidecar, pod::restart_policy::RestartPolicy};

use super::{
    Case, Finding, Id, Severity,
    date::clock,
    early_start::status_of,
    facts::{Container, Ended, State},
    finding::short,
};

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let failed = case
        .apps()
        .any(|app| app.newest_end().is_some_and(|end| end.code != 0));
    if failed || !case.finishes() {
        return Vec::new();
    }
    let spoilers = case.sidecars();
    let found = spoilers.filter_map(|(sidecar, container)| {
        let (end, effect) = match (case.policy(&sidecar.name), &container.status.state) {
            (RestartPolicy::Never, State::Ended(end)) => (end, Effect::Fails),
            (RestartPolicy::OnFailure, _) => {
                let end = container.newest_end()?;
                // A crash while the app works is repaired by the restart.
                let after = end.finished_ms >= case.finished_ms();
                (case.ends().is_some() && after).then_some((end, Effect::ComesBack))?
            }
            _ => return None,
        };
        (end.code != 0).then(|| tell(case, sidecar, container, end, &effect))
    });
    found.collect()
}

enum Effect {
    Fails,
    ComesBack,
}

fn tell(
    case: &Case<'_>,
    sidecar: &Sidecar,
    container: &Container,
    end: &Ended,
    effect: &Effect,
) -> Finding {
    let (name, code) = (&container.name, end.code);
    let done = if case.ends().is_some() {
        "although every app succeeded"
    } else {
        "whatever its apps do"
    };
    let problem = match effect {
        Effect::Fails => format!(
            "sidecar {name} ended with exit code {code}, which makes the pod a failed one {done}"
        ),
        Effect::ComesBack => {
            format!(
                "sidecar {name} ended with exit code {code} after its apps, and is started again for it"
            )
        }
    };
    let field = match effect {
        Effect::Fails => "state.terminated",
        Effect::ComesBack => "lastState.terminated",
    };
    let at = end
        .finished_ms
        .map_or(String::new(), |at| format!(" at {}", clock(at)));
    let mut finding = Finding::new(Id::ExitCodeSpoils, Severity::Error, problem)
        .about(name)
        .by(
            format!("{}.{field}", status_of(container)),
            format!(
                "exitCode {code}, {}{at}",
                if end.reason.is_empty() {
                    "no reason"
                } else {
                    &end.reason
                }
            ),
        )
        .by("spec.restartPolicy", format!("{:?}", case.policy(name)));
    if let Some((kind, owner)) = case.facts.owner.as_ref().filter(|(kind, _)| kind == "Job") {
        let says = format!(
            "{}; its backoffLimit, which says how often it is done again, is not on the node",
            short(owner)
        );
        finding = finding.by(format!("metadata.ownerReferences[{kind}]"), says);
    }
    let advice = sidecar
        .ladder
        .iter()
        .find(|rung| i64::from(rung.code) == code);
    let advice = advice
        .map(|rung| rung.advice.as_str())
        .filter(|advice| !advice.is_empty());
    match (end.reason.as_str(), code, advice) {
        ("OOMKilled", ..) => finding.mend(
            "Give the sidecar more memory.",
            format!("resources:\n  limits:\n    memory: 256Mi    # of {name}"),
        ),
        (_, _, Some(advice)) => finding.mend(format!("Have the sidecar end with 0: {advice}."), ""),
        (_, 137 | 143, None) => finding.mend(
            "Somebody ended it by a signal: have it asked to quit instead, which ends it with 0.",
            case.enforce(usher_core::settings::annotation::QUIT),
        ),
        _ => finding.mend(
            "Have the sidecar end with 0; its log says why it did not.",
            format!(
                "kubectl -n {} logs {} -c {name}{}",
                case.facts.namespace,
                case.facts.name,
                if matches!(effect, Effect::ComesBack) {
                    " --previous"
                } else {
                    ""
                }
            ),
        ),
    }
}
