//! An app that ran before its proxy was ready: its connections are refused, and most apps end with an error.
//!
//! That nobody listens where the mesh redirects to makes `connect()` fail at once. The node shows who began first, and
//! usher counted what was refused; what an app made of it, its log tells.

use usher_core::{
    decision::timeline::Entry,
    recipe::Order,
    settings::{annotation, mode::Mode},
};

use super::{
    Case, Finding, Id, Severity,
    date::clock,
    facts::{Container, Ended},
    finding::span,
    own_hold,
};

/// A proxy is ready within this time; an end later than this has other causes.
const READY_MS: u64 = 10_000;
/// Whether an app that ends is one that could not begin.
const BRIEF_MS: u64 = 30_000;

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let refused = case.newest(&["would-hold"]).filter(|entry| refused(entry));
    let late = case
        .newest(&["hold-released"])
        .filter(|entry| at_deadline(entry));
    let failed = case.sidecars().find_map(|(sidecar, proxy)| {
        let is_door = sidecar.order == Order::Mesh && !sidecar.doors.is_empty();
        let failed = case
            .apps()
            .find_map(|app| Some((app, first_failure(case, app, proxy)?)));
        failed
            .filter(|_| is_door)
            .map(|(app, end)| (proxy, app, end))
    });
    let finding = match (failed, late, refused) {
        (Some((proxy, app, end)), None, _) => by_status(case, proxy, app, end),
        (_, Some(late), _) => {
            let problem = "the proxy was not ready when the hold's deadline came, and the app's connections were let go";
            Finding::new(Id::StartedBeforeProxy, Severity::Warning, problem)
        }
        .by(told(late), late.reason.clone())
        .mend(
            "See why the proxy is slow (its log), or have connections wait longer.",
            Case::template_annotation(annotation::HOLD_DEADLINE, "2m"),
        ),
        (None, None, Some(refused)) => by_count(case, refused),
        (None, None, None) => return Vec::new(),
    };
    let finding = match refused {
        Some(entry) => finding.by(told(entry), entry.reason.clone()),
        None => finding,
    };
    vec![finding]
}

/// usher saw it: whatever became of the app, and however often it was tried since.
fn by_count(case: &Case<'_>, refused: &Entry) -> Finding {
    let problem = "connections of the app were refused, since its proxy was not ready yet";
    let finding = Finding::new(Id::StartedBeforeProxy, Severity::Warning, problem);
    let failed = case.apps().find_map(|app| {
        // The status has whole seconds.
        let ended = |end: &Ended| end.finished_ms.is_some_and(|at| at <= refused.at_ms + 1000);
        let before = |end: &&Ended| end.code != 0 && ended(end);
        Some((app, app.ends().find(before)?))
    });
    let finding = match failed {
        Some((app, end)) => Finding {
            severity: Severity::Error,
            ..finding
        }
        .about(&app.name)
        .by(
            status_of(app),
            format!("exit code {}, before the proxy was ready", end.code),
        ),
        None => finding,
    };
    advise(case, finding)
}

fn by_status(case: &Case<'_>, proxy: &Container, app: &Container, end: &Ended) -> Finding {
    let (app_name, proxy_name, code) = (&app.name, &proxy.name, end.code);
    let problem = format!(
        "app {app_name} ran before its proxy {proxy_name} could accept connections, and ended with exit code {code}"
    );
    let ran = match (end.started_ms, end.finished_ms) {
        (Some(began), Some(ended)) => format!(
            "ran from {} to {}, exit code {code}",
            clock(began),
            clock(ended)
        ),
        _ => format!("exit code {code}"),
    };
    let began = proxy.started_ms();
    let began = began.map_or("has not started".to_owned(), |at| {
        format!("started at {}", clock(at))
    });
    let finding = Finding::new(Id::StartedBeforeProxy, Severity::Error, problem)
        .about(app_name)
        .by(status_of(app), ran)
        .by(
            status_of(proxy),
            format!("{began}{}", order(case, app, proxy)),
        );
    advise(case, finding)
}

fn order(case: &Case<'_>, app: &Container, proxy: &Container) -> &'static str {
    if comes_before(case, app, proxy) {
        "; the spec has it after the app"
    } else {
        "; nothing has the app wait for it"
    }
}

fn advise(case: &Case<'_>, finding: Finding) -> Finding {
    let hold = case.seen.modes.map(|modes| modes.hold);
    if case.plan.tuning.hold == usher_core::settings::overrides::HoldKind::No {
        let says = case.opt_out(annotation::HOLD);
        // The pod's own word comes before its Namespace's.
        let how = match case.facts.annotation(annotation::HOLD) {
            Some(_) => Case::template_annotation(annotation::HOLD, "true"),
            None => format!(
                "kubectl annotate namespace {} {}-",
                case.facts.namespace,
                annotation::HOLD
            ),
        };
        return finding
            .by("opt-out", says)
            .mend("Remove what switches holding off for this pod.", how);
    }
    match hold {
        Some(Mode::Enforce) => finding.mend(
            "Have the start of the app wait as well, not its connections alone.",
            Case::template_annotation(annotation::HOLD, "start"),
        ),
        _ => finding.mend(
            "Have usher hold the app's connections on this node until the proxy is ready.",
            case.enforce(annotation::HOLD),
        ),
    }
}

/// The app's failed run that began before the proxy could be ready, if it had one that can be seen.
fn first_failure<'app>(
    case: &Case<'_>,
    app: &'app Container,
    proxy: &Container,
) -> Option<&'app Ended> {
    let held = case.newest(&["hold-armed", "start-held", "hold-adopted"]);
    if held.is_some() || own_hold::waits(proxy) && !comes_before(case, app, proxy) {
        return None;
    }
    // Of more than one restart the first run is forgotten.
    let mut ends = app.ends();
    ends.find(|end| is_early(case, app, proxy, end))
}

fn is_early(case: &Case<'_>, app: &Container, proxy: &Container, end: &Ended) -> bool {
    let (Some(began), Some(ended)) = (end.started_ms, end.finished_ms) else {
        return false;
    };
    if end.code == 0 || ended.saturating_sub(began) > BRIEF_MS {
        return false;
    }
    let Some(proxy_began) = proxy.started_ms() else {
        return proxy.status.restarts == 0;
    };
    // The status has whole seconds: in the same one the kubelet's order decides.
    let first = began < proxy_began || began == proxy_began && comes_before(case, app, proxy);
    let soon = began <= proxy_began + 1000 && ended <= proxy_began + READY_MS / 2;
    first && ended <= proxy_began + READY_MS || soon
}

fn comes_before(case: &Case<'_>, app: &Container, proxy: &Container) -> bool {
    let place = |container: &Container| {
        let mut all = case.facts.containers.iter();
        all.position(|found| found.name == container.name)
    };
    place(app) < place(proxy)
}

/// Where the status has a container.
pub(super) fn status_of(container: &Container) -> String {
    let list = if container.place.starts_with("spec.init") {
        "initContainerStatuses"
    } else {
        "containerStatuses"
    };
    format!("status.{list}[{}]", container.name)
}

/// Where an entry of the timeline comes from.
pub(super) fn told(entry: &Entry) -> String {
    format!("timeline {} {}", clock(entry.at_ms), entry.decision)
}

/// Whether `would-hold` counted any connection.
fn refused(entry: &Entry) -> bool {
    !entry.reason.contains("no connection came")
}

/// Whether `hold-released` let somebody go who then found nobody.
fn at_deadline(entry: &Entry) -> bool {
    entry.reason.contains("the deadline has come")
        && !entry.reason.contains("no connection had waited")
}

/// For texts of other rooms.
pub(super) fn ago(case: &Case<'_>, at_ms: u64) -> String {
    format!("{} ago", span(case.seen.now_ms.saturating_sub(at_ms)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use usher_core::{
        base::id::PodUid,
        decision::{Decision, Kind},
        hold::{Opened, Tally},
    };

    fn entry(kind: Kind) -> Entry {
        let decision = Decision {
            pod: PodUid::parse(&"0".repeat(32)).unwrap(),
            pod_name: String::new(),
            container: None,
            kind,
            since_exit: None,
        };
        Entry::new(0, &decision)
    }

    /// The texts are written elsewhere.
    #[test]
    fn reasons_are_read_as_they_are_written() {
        let tally = |connections| Tally {
            connections,
            ..Tally::default()
        };
        for (count, expected) in [(0, false), (1, true), (3, true)] {
            let would = entry(Kind::WouldHold {
                shut: Duration::ZERO,
                tally: tally(count),
                starts: Vec::new(),
            });
            assert_eq!(refused(&would), expected, "{would:?}");
            for why in [Opened::Deadline, Opened::Ready] {
                let opened = entry(Kind::HoldReleased {
                    why,
                    shut: Duration::ZERO,
                    adopted: false,
                    tally: tally(count),
                });
                assert_eq!(
                    at_deadline(&opened),
                    expected && why == Opened::Deadline,
                    "{opened:?}"
                );
            }
        }
    }
}
