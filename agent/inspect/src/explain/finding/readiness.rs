//! A hold that ended because the readiness of a sidecar cannot be requested.

use usher_core::{decision::timeline::Detail, hold::Released};

use super::{Finding, Id, Severity};
use crate::explain::{Case, case::names};

/// With port 0 Istio's proxy has no readiness port.
const STATUS_PORT: &str = "status.sidecar.istio.io/port";

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    let decision = case.newest(|detail| matches!(detail, Detail::HoldReleased { .. }))?;
    let Detail::HoldReleased {
        cause: Some(Released::ProbeFailed),
        ..
    } = decision.detail
    else {
        return None;
    };
    let sidecars = names(case.sidecars().map(|(_, container)| container)).join(", ");
    let problem = format!(
        "usher released the connections without knowing that {sidecars} is ready: it does not reply to readiness \
         requests, although its port has a listener"
    );
    let disabled = case
        .facts
        .annotation(STATUS_PORT)
        .filter(|port| *port == "0");
    let finding = Finding::new(Id::ReadinessUnknown, Severity::Hint, problem)
        .because_of(Some(decision))
        .because_any(disabled.map(|port| (Case::annotation_path(STATUS_PORT), port)));
    Some(match disabled {
        Some(_) => finding.fix(
            "Remove the annotation that switches the readiness port off.",
            format!("metadata:\n  annotations:\n    {STATUS_PORT}: null"),
        ),
        None => finding.fix(
            "Find why the sidecar does not reply at its readiness port; its log may show it.",
            case.logs(sidecars.split(", ").next().unwrap_or_default()),
        ),
    })
}
