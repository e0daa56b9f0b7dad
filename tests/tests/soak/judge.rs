//! The judge: it compares the correct outcome of a pod, computed from its plan and the faults, with the real one.
//!
//! It does not use usher's code, only usher's guarantees.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use usher_tests::synthetic::RestartPolicy;

use crate::facts::{Facts, Life};
use crate::fault::Fault;
use crate::fault_log::{NEVER, Trouble};
use crate::plan::{PodPlan, Variation, last_life};
use crate::sidecar::Temper;

/// An attempt that was decided before a change of the mode may arrive this much later.
const IN_FLIGHT: u64 = 2_000_000_000;
/// A held connection continues with its next retransmission after the deadline, on a busy machine.
const RETRANSMISSION: u64 = 20_000_000_000;
/// From the order to create a pod to its app's start, on a busy machine.
const MAKING: u64 = 30_000_000_000;
/// The effect of a fault lasts this long: a failed action is retried after up to 30 s.
const AFTERMATH: u64 = 31_000_000_000;

/// The correct outcome of a sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It exits, if there is enough time without faults.
    Leaves,
    /// It gets requests and runs on.
    Stays,
    /// It gets no request.
    Untouched,
    /// The kubelet handles it, and usher may.
    Anything,
}

/// The correct outcome of a sidecar of this pod.
pub(crate) fn fate(plan: &PodPlan, sidecar: usize) -> Fate {
    if !plan.finishes() || matches!(plan.variation, Variation::OptedOut | Variation::Excluded) {
        return Fate::Untouched;
    }
    if matches!(plan.variation, Variation::Removed(_) | Variation::Deleted) {
        return Fate::Anything;
    }
    match plan.sidecars[sidecar].temper() {
        Temper::Leaves => Fate::Leaves,
        Temper::Stays => Fate::Stays,
        // Never a code that fails a successful pod, nor one after which it would be restarted.
        Temper::FailsPod if plan.policy == RestartPolicy::Never && !succeeds(plan) => Fate::Leaves,
        Temper::FailsPod => Fate::Untouched,
    }
}

pub(crate) fn succeeds(plan: &PodPlan) -> bool {
    plan.apps.iter().all(|app| {
        let (last, _) = last_life(plan.policy, app);
        app.lives[last].1 == 0
    })
}

/// The wrong outcomes of a pod.
pub(crate) fn pod(facts: &Facts, troubles: &[Trouble]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, lives) in facts.sidecars.iter().enumerate() {
        let name = format!("{:?}", facts.plan.sidecars[number]);
        let found = sidecar(facts, troubles, number, lives);
        wrong.extend(found.into_iter().map(|what| format!("{name}: {what}")));
    }
    wrong.extend(order(facts));
    wrong.extend(hold(facts));
    if facts.table && facts.settled {
        wrong.push("usher's table is left in its network namespace".to_owned());
    }
    wrong
}

fn sidecar(facts: &Facts, troubles: &[Trouble], number: usize, lives: &[Life]) -> Vec<String> {
    let mut wrong = Vec::new();
    let fate = fate(&facts.plan, number);
    let touched = || lives.iter().flat_map(Life::touched);
    // Removal ends everything at once, in any order.
    let early = |at: &u64| *at < facts.end_requested.unwrap_or(NEVER) && *at < facts.gone;
    if touched().any(|at| early(&at)) {
        wrong.push("requested to quit before every app had finished".to_owned());
    }
    if fate == Fate::Untouched && touched().any(|at| at < facts.gone) {
        wrong.push("requested to quit, but it must be left alone".to_owned());
    }
    if fate == Fate::Leaves && facts.settled && lives.iter().any(|life| life.code.is_none()) {
        wrong.push("runs on in a finished pod".to_owned());
    }
    if fate == Fate::Stays && lives.iter().any(|life| life.code == Some(137)) {
        wrong.push("killed without a request".to_owned());
    }
    let failed = lives
        .iter()
        .any(|life| life.code.is_some_and(|code| code != 0));
    if fate == Fate::Leaves && succeeds(&facts.plan) && failed {
        wrong.push("ended with a code that fails its pod".to_owned());
    }
    for trouble in troubles
        .iter()
        .filter(|trouble| trouble.fault.forbids_quits())
    {
        let from = trouble.sure.saturating_add(IN_FLIGHT);
        if touched().any(|at| from <= at && at < trouble.to && at < facts.gone) {
            wrong.push(format!("requested during {:?}", trouble.fault));
        }
    }
    let ended = facts.end_requested.unwrap_or(facts.gone);
    let again = troubles
        .iter()
        .filter(|trouble| trouble.overlaps(ended, facts.gone));
    let most = 1 + again.count();
    for life in lives {
        for (_, what) in &life.asks {
            let times = life.asks.iter().filter(|(_, other)| other == what).count();
            if times > most {
                wrong.push(format!(
                    "requested {times} times by {what}, {most} are explained"
                ));
                break;
            }
        }
    }
    wrong
}

/// The mesh exits last.
fn order(facts: &Facts) -> Option<String> {
    let first = |mesh: bool| {
        let sidecars = facts.plan.sidecars.iter().zip(&facts.sidecars);
        let of_kind = sidecars.filter(move |(sidecar, _)| sidecar.is_mesh() == mesh);
        of_kind.filter_map(|(_, lives)| lives.iter().flat_map(Life::touched).min())
    };
    let has_other = facts.plan.sidecars.iter().any(|sidecar| !sidecar.is_mesh());
    let mesh = first(true).min().filter(|at| *at < facts.gone)?;
    let others = first(false).max().unwrap_or(NEVER);
    (has_other && mesh < others)
        .then(|| "the mesh proxy received its request before the others".to_owned())
}

fn hold(facts: &Facts) -> Option<String> {
    let hold = facts.plan.hold?;
    let deadline = u64::try_from(hold.deadline.as_nanos()).unwrap_or(NEVER);
    let connection = facts.connection;
    let Some(ran) = connection.ran else {
        let late = facts.gone.saturating_sub(facts.made) > deadline + MAKING;
        return late.then(|| "its start was held for too long".to_owned());
    };
    let over = connection
        .connected
        .or(connection.failed)
        .unwrap_or(facts.gone);
    let waited = over.saturating_sub(ran);
    (waited > deadline + RETRANSMISSION).then(|| {
        let waited = Duration::from_nanos(waited);
        format!(
            "its connection waited {waited:?}, the deadline is {:?}",
            hold.deadline
        )
    })
}

/// The wrong outcome of the requested hold of a pod, by usher's own report.
pub(crate) fn armed(facts: &Facts, troubles: &[Trouble], decided: &[String]) -> Option<String> {
    let hold = facts.plan.hold?;
    let connection = facts.connection;
    let disturbed = disturbed(troubles, facts.made, facts.gone);
    let in_time =
        facts.ready? < connection.ran? + u64::try_from(hold.deadline.as_nanos()).ok()? / 2;
    let was_armed = decided.iter().any(|decision| decision == "hold-armed");
    let refused = connection.connected.is_none() && connection.failed.is_some();
    let reported = decided
        .iter()
        .any(|decision| matches!(decision.as_str(), "not-held" | "hold-failed"));
    if !disturbed && refused && !was_armed && !reported {
        return Some("its connections were not held, and it was not reported".to_owned());
    }
    if disturbed || !in_time || !was_armed || !facts.answered {
        return None;
    }
    if refused {
        return Some("its connections were held, and one failed".to_owned());
    }
    let held = decided.iter().any(|decision| decision == "start-held");
    (held && connection.ran < facts.ready)
        .then(|| "its start was held, and it ran too early".to_owned())
}

/// The reason why this Event is not justified.
pub(crate) fn unjustified(facts: &Facts, troubles: &[Trouble], reason: &str) -> bool {
    let plan = &facts.plan;
    let during = |wanted: fn(Fault) -> bool| {
        let from = facts.made.saturating_sub(AFTERMATH);
        let mut overlapping = troubles.iter().filter(|one| one.overlaps(from, facts.gone));
        overlapping.any(|trouble| wanted(trouble.fault))
    };
    let fates = || (0..plan.sidecars.len()).map(|sidecar| fate(plan, sidecar));
    let ours =
        plan.finishes() && !matches!(plan.variation, Variation::OptedOut | Variation::Excluded);
    let justified = match reason {
        "SidecarQuit" => fates().any(|fate| fate != Fate::Untouched),
        "SidecarStays" => {
            let tempers = || plan.sidecars.iter().map(|sidecar| sidecar.temper());
            ours && tempers().any(|temper| temper != Temper::Leaves)
        }
        "WouldQuit" => ours && during(Fault::may_observe),
        "InvalidAnnotation" => plan.variation == Variation::BadAnnotations,
        "ConnectionsHeld" | "HoldDeadlineExceeded" => plan.hold.is_some(),
        "WouldHold" => plan.hold.is_some() && during(Fault::may_observe),
        "HoldFailed" => plan.hold.is_some() && matches!(plan.variation, Variation::Removed(_)),
        // A holder that gets no CPU time ends, so that no container waits for it. If no process gets CPU time, its
        // limit expires before the deadline of the held ports is applied.
        "StartHeld" | "StartMissed" | "StartNotHeld" | "StartReleasedEarly" => {
            plan.hold.is_some_and(|hold| hold.start)
        }
        // No stop signal can be held, so none is released early.
        "LingerUnsupported" => plan.variation == Variation::Lingers,
        "LingerReleasedEarly" => false,
        _ => false,
    };
    !justified
}

/// Whether this Event on the Node is not justified after these faults.
pub(crate) fn unjustified_on_node(seen: &BTreeSet<Fault>, reason: &str) -> bool {
    let any = |wanted: fn(Fault) -> bool| seen.iter().any(|fault| wanted(*fault));
    let justified = match reason {
        "ModeChanged" => any(Fault::may_observe),
        "ConfigurationRejected" | "ConfigurationAccepted" => {
            seen.contains(&Fault::BadConfiguration)
        }
        "HolderFailed" => any(|fault| matches!(fault, Fault::HolderKilled | Fault::HolderStopped)),
        // A minute without the kubelet's list is longer than any fault, but not than several.
        "KubeletUnreachable" => any(Fault::keeps_list),
        _ => false,
    };
    !justified
}

/// The required Events.
pub(crate) fn due(facts: &Facts, troubles: &[Trouble]) -> Vec<&'static str> {
    // An agent that exits loses its unsent reports. An agent with the hold switched off does not report about its
    // earlier holds. No other report may be lost.
    let (from, to) = (facts.made, facts.gone + AFTERMATH);
    let silences = |fault: Fault| fault.ends_agent() || fault.forbids_quits();
    let mut ends = troubles.iter().filter(|one| silences(one.fault));
    if facts.end_requested.is_none() || ends.any(|one| one.overlaps(from, to)) {
        return Vec::new();
    }
    let sidecars = || facts.sidecars.iter().enumerate();
    let fated = |number, wanted| fate(&facts.plan, number) == wanted;
    let left = |(number, lives): (usize, &Vec<Life>)| {
        let requested = lives.iter().any(|life| life.touched().next().is_some());
        let ended = lives.iter().any(|life| life.code.is_some());
        fated(number, Fate::Leaves) && requested && ended
    };
    let stays = |(number, _): (usize, &Vec<Life>)| facts.settled && fated(number, Fate::Stays);
    let mut due = Vec::new();
    if sidecars().any(left) {
        due.push("SidecarQuit");
        if facts.plan.variation == Variation::BadAnnotations {
            due.push("InvalidAnnotation");
        }
    }
    if sidecars().any(stays) {
        due.push("SidecarStays");
    }
    due
}

fn disturbed(troubles: &[Trouble], from: u64, to: u64) -> bool {
    let from = from.saturating_sub(AFTERMATH);
    troubles.iter().any(|trouble| trouble.overlaps(from, to))
}
