//! A pod that is being deleted, whose apps have ended and whose sidecars wait for the kubelet.

use usher_core::{decision::timeline::Detail, settings::annotation};

use super::{Finding, Id, Severity};
use crate::explain::{
    Case,
    case::{names, sentence},
};

pub(in crate::explain) fn find(case: &Case<'_>) -> Option<Finding> {
    if !case.pod.deleting {
        return None;
    }
    let sidecars = names(case.running_sidecars());
    let first = sidecars.first()?;
    let decision = case
        .newest(|detail| matches!(detail, Detail::LeftToKubelet | Detail::WouldQuitOnDeletion))?;
    let problem = format!(
        "the pod is being deleted and its apps have ended: the kubelet ends {}, at the latest after the grace period",
        sidecars.join(", ")
    );
    let finding = Finding::new(Id::LeftToKubelet, Severity::Hint, problem)
        .about(first)
        .because_of(Some(decision));
    Some(match decision.detail {
        Detail::WouldQuitOnDeletion => {
            let action = "terminate the sidecar on this node when the last app has ended";
            let (remedy, how) = case.enable(action, annotation::QUIT);
            finding.fix(sentence(&remedy), how)
        }
        _ => finding.fix(
            "Wait for the kubelet, or shorten the grace period of the pod.",
            "spec:\n  terminationGracePeriodSeconds: 30",
        ),
    })
}
