//! Holds of connections and starts.

use std::time::Duration;

use super::{QUOTED, container, time};
use crate::{
    Decision,
    decision::Kind,
    hold::{Failed, Opened, Tally},
    kube_event::{Reason, text::bounded},
    settings::annotation,
    start::{NotHeld, Why},
};

pub(super) fn told(node: &str, decision: &Decision) -> Option<(Reason, String)> {
    let app = container(decision);
    let told = match &decision.kind {
        Kind::HoldReleased {
            why,
            shut,
            adopted,
            tally,
        } => return opened(*why, *shut, *adopted, *tally),
        Kind::WouldHold { tally, .. } if tally.connections > 0 => {
            let note = format!(
                "{} refused before the sidecar was ready, the first {} before; usher would have had {} wait but only observes \
                 this node. To have it done: kubectl annotate node {node} {}=enforce --overwrite",
                connections(tally.connections, "was", "were"),
                time(tally.longest),
                them(tally.connections),
                annotation::HOLD
            );
            (Reason::WouldHold, note)
        }
        Kind::HoldStaysClosed { deadline } => {
            let note = format!(
                "the sidecar is not ready after {deadline:?}, and connections wait on as {}: closed asks; see why the sidecar \
                 does not become ready",
                annotation::ON_DEADLINE
            );
            (Reason::HoldStaysClosed, note)
        }
        Kind::HoldFailed(failed) => (Reason::HoldFailed, failed_note(failed)),
        Kind::StartReleased { why, held } => return let_go(app, *why, *held),
        Kind::StartMissed => {
            let note = format!(
                "{app} had started before its start could be held; its connections waited. Make the pod anew if that is not enough"
            );
            (Reason::StartMissed, note)
        }
        Kind::StartNotHeld(why) => (Reason::StartNotHeld, not_held(app, why)),
        _ => return None,
    };
    Some(told)
}

fn failed_note(failed: &Failed) -> String {
    let again = "Have the app try again where it does not";
    match failed {
        Failed::Arm(error) => format!(
            "connections could not be made to wait for the sidecar: they go, and may be refused. {again}; the cause: {}",
            bounded(error, QUOTED)
        ),
        Failed::Gate => {
            format!(
                "who had connections wait for the sidecar ended: they go, and may be refused. {again}"
            )
        }
        Failed::Open(error) => format!(
            "connections that wait for the sidecar cannot be let go, and wait until the deadline. Something in the pod may \
             have taken the table inet usher over: usher rules POD shows it; the cause: {}",
            bounded(error, QUOTED)
        ),
    }
}

fn opened(why: Opened, shut: Duration, adopted: bool, tally: Tally) -> Option<(Reason, String)> {
    let waited = match tally.connections {
        0 => "no connection had waited".to_owned(),
        many => format!(
            "{} waited, the first for {}",
            connections(many, "had", "had"),
            time(tally.longest)
        ),
    };
    let why = match why {
        Opened::Ready if tally.connections > 0 => "the sidecar is ready",
        Opened::SidecarEnded if tally.connections > 0 => {
            "the sidecar ended and is not started again"
        }
        Opened::Deadline => {
            let late = if adopted {
                "at the deadline".to_owned()
            } else {
                format!("after {}", time(shut))
            };
            let note = format!(
                "the sidecar was not ready {late}: connections go and may be refused; {waited}. See why the sidecar is slow, or \
                 give it longer by {}",
                annotation::HOLD_DEADLINE
            );
            return Some((Reason::HoldDeadlineExceeded, note));
        }
        _ => return None,
    };
    let begin = if adopted {
        "this agent found the hold of an earlier one"
    } else {
        "the hold began"
    };
    let note = format!("{why}, {} after {begin}; {waited}", time(shut));
    Some((Reason::ConnectionsHeld, note))
}

fn let_go(app: &str, why: Why, held: Duration) -> Option<(Reason, String)> {
    let held = time(held);
    let told = match why {
        Why::Opened(Opened::Ready) => {
            let note =
                format!("the start of {app} waited {held} for the sidecar, which is ready now");
            (Reason::StartHeld, note)
        }
        Why::Limit => {
            let note = format!(
                "the start of {app} waited {held} and was let go before the sidecar was ready, since its probes would have failed; its \
                 connections wait on. Give its startupProbe or livenessProbe more time"
            );
            (Reason::StartReleasedEarly, note)
        }
        Why::HolderEnded => {
            let note = format!(
                "the process that held the start of {app} ended after {held}: it starts, its connections wait; see the agent's log"
            );
            (Reason::StartNotHeld, note)
        }
        Why::Opened(_) | Why::ContainerEnded => return None,
    };
    Some(told)
}

fn not_held(app: &str, why: &NotHeld) -> String {
    let cure = match why {
        NotHeld::Node { .. } => {
            "give the agent what is missing, or run the pod on a node that has it"
        }
        NotHeld::Container { .. } => "see docs/start.md for what can be held",
        NotHeld::Probe(_) => "give that probe more time",
    };
    format!(
        "the start of {app} is not held: {}; its connections wait. To have it held: {cure}",
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
