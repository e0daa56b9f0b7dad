//! Events about sidecars of deleted pods that linger.

use super::{QUOTED, container};
use crate::{
    Decision,
    base::duration::elapsed,
    decision::Kind,
    kube_event::{Reason, text::bounded},
    linger::Released,
    settings::annotation,
};

pub(super) fn content(decision: &Decision) -> Option<(Reason, String)> {
    let sidecar = container(decision);
    match &decision.kind {
        Kind::LingerReleased { why, held } => {
            let remedy = match why {
                Released::Deadline => {
                    "let the apps end sooner, or raise terminationGracePeriodSeconds"
                }
                Released::Limit => "let the apps end sooner, or raise usher.dev/linger",
                Released::Unconfirmed => "see why the kubelet does not reply: usher check",
                Released::HolderEnded => "see the agent's log",
                Released::AppsEnded
                | Released::EarlierStage
                | Released::SidecarEnded
                | Released::NotDeleted
                | Released::Unlisted
                | Released::NotWanted
                | Released::ByOperator
                | Released::Quiet
                | Released::Floor(_) => return None,
            };
            let note = format!(
                "sidecar {sidecar} received its stop signal after {}, before the apps had ended: {why}; {remedy}",
                elapsed(*held)
            );
            Some((Reason::LingerReleasedEarly, note))
        }
        Kind::PreStopUnsupported { reason } => {
            let note = format!(
                "the stop signal of app {sidecar} cannot wait as {} requests: {}; see docs/linger.md",
                annotation::PRE_STOP,
                bounded(reason, QUOTED)
            );
            Some((Reason::PreStopUnsupported, note))
        }
        Kind::LingerUnsupported { reason } => {
            let note = format!(
                "the stop signal of sidecar {sidecar} cannot wait for the apps as {} requests: {}; see docs/linger.md",
                annotation::LINGER,
                bounded(reason, QUOTED)
            );
            Some((Reason::LingerUnsupported, note))
        }
        _ => None,
    }
}
