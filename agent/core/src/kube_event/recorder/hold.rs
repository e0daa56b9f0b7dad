//! Events about holds of connections and starts.

use std::time::Duration;

use super::{QUOTED, container};
use crate::{
    Decision,
    base::duration::{elapsed, setting},
    decision::Kind,
    hold::{Failed, Released, Tally},
    kube_event::{Reason, text::bounded},
    settings::annotation,
    start::{NotHeld, Why},
};

pub(super) fn content(node: &str, decision: &Decision) -> Option<(Reason, String)> {
    let app = container(decision);
    let content = match &decision.kind {
        Kind::HoldReleased {
            why,
            held,
            adopted,
            tally,
        } => return ended(*why, *held, *adopted, *tally),
        Kind::WouldHold { why, tally, .. } if tally.connections > 0 => {
            let note = format!(
                "{} refused before {}, the first {} before; usher would have held {}, but this node is in \
                 observe mode. To enforce: kubectl annotate node {node} {}=enforce --overwrite",
                connections(tally.connections, "was", "were"),
                match why {
                    Released::Ready => "the sidecar was ready",
                    _ => "the end of the hold",
                },
                elapsed(tally.longest),
                them(tally.connections),
                annotation::HOLD
            );
            (Reason::WouldHold, note)
        }
        Kind::HoldExtended { deadline } => {
            let note = format!(
                "the sidecar is not ready after {}, and connections stay held as {}: closed requests; find out why the sidecar \
                 does not become ready",
                setting(*deadline),
                annotation::ON_DEADLINE
            );
            (Reason::HoldExtended, note)
        }
        Kind::HoldFailed(failed) => (Reason::HoldFailed, failed_note(failed)),
        Kind::Quarantined(reason) => {
            let note = format!(
                "{reason}; usher holds no connections of the pod and sends no requests to its sidecars for a while. See nft list \
                 ruleset in the pod's network namespace"
            );
            (Reason::PodQuarantined, note)
        }
        Kind::StartReleased { why, held } => return released(app, *why, *held),
        Kind::StartMissed => {
            let note = format!(
                "{app} started before its start could be held; its connections were held. Recreate the pod if that is not enough"
            );
            (Reason::StartMissed, note)
        }
        Kind::StartNotHeld(why) => (Reason::StartNotHeld, not_held(app, why)),
        _ => return None,
    };
    Some(content)
}

fn failed_note(failed: &Failed) -> String {
    let retry = "If the app does not retry, let it do so";
    match failed {
        Failed::Arm(error) => format!(
            "connections cannot be held for the sidecar and may be refused. {retry}; the cause: {}",
            bounded(error, QUOTED)
        ),
        Failed::Lost => {
            format!(
                "the hold ended unexpectedly: connections are released and may be refused. {retry}"
            )
        }
        Failed::Release(error) => format!(
            "held connections cannot be released, and wait until the deadline. Something in the pod may \
             have changed the table inet usher: see usher rules POD; the cause: {}",
            bounded(error, QUOTED)
        ),
    }
}

fn ended(why: Released, held: Duration, adopted: bool, tally: Tally) -> Option<(Reason, String)> {
    let mut waited = match tally.connections {
        0 => "no connection had waited".to_owned(),
        many => format!(
            "{} waited, the longest for {}",
            connections(many, "had", "had"),
            elapsed(tally.longest)
        ),
    };
    if tally.lost > 0 {
        let lost = tally.lost;
        waited += &format!("; {lost} more continue with their next retransmission");
    }
    let any_waited = tally.connections + tally.lost > 0;
    let why = match why {
        Released::Ready if any_waited => "the sidecar is ready",
        Released::ProbeFailed if any_waited => {
            "the sidecar listens, but its readiness probe did not succeed"
        }
        Released::SidecarEnded if any_waited => "the sidecar ended and does not restart",
        Released::Deadline => {
            let late = if adopted {
                "at the deadline".to_owned()
            } else {
                format!("after {}", elapsed(held))
            };
            let note = format!(
                "the sidecar was not ready {late}: connections are released and may be refused; {waited}. Find out why the \
                 sidecar starts slowly, or set a longer {}",
                annotation::HOLD_DEADLINE
            );
            return Some((Reason::HoldDeadlineExceeded, note));
        }
        _ => return None,
    };
    let begin = if adopted {
        "this agent adopted the hold"
    } else {
        "the hold began"
    };
    let note = format!("{why}, {} after {begin}; {waited}", elapsed(held));
    Some((Reason::ConnectionsHeld, note))
}

fn released(app: &str, why: Why, held: Duration) -> Option<(Reason, String)> {
    let held = elapsed(held);
    let content = match why {
        Why::Released(Released::Ready) => {
            let note =
                format!("the start of {app} was held for {held} until the sidecar was ready");
            (Reason::StartHeld, note)
        }
        Why::Limit => {
            let note = format!(
                "the start of {app} was held for {held} and released before the sidecar was ready, because its probes would have \
                 failed; its connections stay held. Give its startupProbe or livenessProbe more time"
            );
            (Reason::StartReleasedEarly, note)
        }
        Why::HolderEnded => {
            let note = format!(
                "the process that held the start of {app} ended after {held}: the app starts, its connections stay held; see the \
                 agent's log"
            );
            (Reason::StartNotHeld, note)
        }
        Why::Released(_) | Why::ContainerEnded => return None,
    };
    Some(content)
}

fn not_held(app: &str, why: &NotHeld) -> String {
    let remedy = match why {
        NotHeld::Node { .. } => "provide what is missing, or run the pod on a node that has it",
        NotHeld::Container { .. } => "see docs/start.md for what can be held",
        NotHeld::Denied { .. } => {
            "make its program readable, then recreate the pod (docs/start.md#denied-execs)"
        }
        NotHeld::Probe(_) => "give that probe more time",
    };
    format!(
        "the start of {app} is not held: {}; its connections are held. To hold it: {remedy}",
        bounded(&why.to_string(), QUOTED)
    )
}

fn connections(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 connection {one}"),
        count => format!("{count} connections {many}"),
    }
}

const fn them(count: usize) -> &'static str {
    if count == 1 { "it" } else { "them" }
}
