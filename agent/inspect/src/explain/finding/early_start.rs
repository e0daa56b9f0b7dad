//! An app that ran before its proxy was ready: its connections are refused, and most apps end with an error.
//!
//! Without a listener at the port that the mesh redirects to, `connect()` fails at once. The node shows which container
//! started first, and usher counts refused connections. Only the app's log shows that it ended because of them.

use usher_core::{
    decision::timeline::{Detail, Entry},
    hold::Released,
    recipe::Stage,
    settings::{annotation, mode::Mode, overrides::HoldKind},
};

use super::{Finding, Id, Severity, end::exit_code::OUT_OF_MEMORY, has_started_well, own_hold};
use crate::explain::{
    Case,
    case::sentence,
    date::clock,
    facts::{Container, Ended},
};

/// A proxy is assumed to be ready after this time. An app that ends later has another cause.
const READY_MS: u64 = 10_000;
/// An app that runs longer is assumed to have started well.
const BRIEF_MS: u64 = 30_000;
/// The exit codes of a shell whose command cannot run or does not exist.
const NO_COMMAND: [i64; 2] = [126, 127];

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    let refused = case
        .newest(|detail| matches!(detail, Detail::WouldHold { .. }))
        .and_then(|entry| match entry.detail {
            Detail::WouldHold { connections, .. } => {
                Some((entry, connections.filter(|many| *many > 0)?))
            }
            _ => None,
        });
    let late = case
        .newest(|detail| matches!(detail, Detail::HoldReleased { .. }))
        .filter(|entry| is_late(&entry.detail));
    let finding = match (late, first_failure(case), refused) {
        (Some(_), ..) => at_deadline(case).because_of(late),
        (None, Some((proxy, app, end)), _) => by_status(case, proxy, app, end),
        (None, None, Some((refused, connections))) => by_count(case, refused, connections),
        (None, None, None) => return None,
    };
    let mut finding = finding.because_of(refused.map(|(entry, _)| entry));
    if has_started_well(case) && !case.reached_deadline() {
        finding.severity = Severity::Hint;
    }
    Some(finding)
}

/// Whether a hold released connections that then found no listener.
fn is_late(detail: &Detail) -> bool {
    matches!(detail, Detail::HoldReleased { cause: Some(Released::Deadline), connections, .. } if *connections > Some(0))
}

/// The proxy was not ready at the deadline. A longer deadline helps only if the proxy became ready later.
fn at_deadline(case: &Case<'_>) -> Finding {
    let finding = Finding::warning(
        Id::StartedBeforeProxy,
        "the proxy was not ready at the hold deadline, and usher released the app's connections",
    );
    let held_ports = case.plan.held_ports();
    let proxy = held_ports
        .first()
        .and_then(|held| case.facts.container(&held.sidecar));
    let Some(proxy) = proxy else {
        return finding.fix("Find why the proxy is slow.", "");
    };
    let name = &proxy.name;
    // Without a readiness probe the kubelet reports every running container as ready.
    let has_probe = proxy
        .probes
        .iter()
        .any(|probe| probe.field == "readinessProbe");
    let became_ready = proxy.runs() && proxy.status.ready && proxy.status.restarts == 0;
    if became_ready && has_probe && case.held_ports_listen() != Some(false) {
        return finding.because(proxy.status_path(), "ready by now").fix(
            format!("Find why {name} starts slowly (its log), or extend the hold deadline."),
            Case::template_annotation(annotation::HOLD_DEADLINE, "2m"),
        );
    }
    let listens = match case.held_ports_listen() {
        Some(true) => {
            "the held ports have listeners by now, and whether it is ready is not visible"
        }
        Some(false) => "the held ports have no listeners",
        None => "its readiness is not visible",
    };
    finding.because(proxy.place.clone(), listens).fix(
        format!(
            "Find why {name} did not become ready: its log, and whether it answers readiness probes at all. A longer hold \
             deadline would only lengthen the wait."
        ),
        case.logs(name),
    )
}

/// usher counted refused connections. Later restarts of the app do not change that.
fn by_count(case: &Case<'_>, refused: &Entry, connections: u64) -> Finding {
    let were = match connections {
        1 => "1 connection of the app was",
        many => &format!("{many} connections of the app were"),
    };
    let problem = format!("{were} refused because its proxy was not ready");
    // The status has whole seconds.
    let before = |end: &&Ended| {
        may_be_refused(end) && end.finished_ms.is_some_and(|at| at <= refused.at_ms + 1000)
    };
    let failed = case
        .apps()
        .find_map(|app| Some((app, app.ends().find(before)?)));
    let finding = match failed {
        Some((app, end)) => Finding::error(Id::StartedBeforeProxy, problem)
            .about(&app.name)
            .because(
                app.status_path(),
                format!("exit code {}, before the proxy was ready", end.code),
            ),
        None => Finding::warning(Id::StartedBeforeProxy, problem),
    };
    advise(case, finding)
}

fn by_status(case: &Case<'_>, proxy: &Container, app: &Container, end: &Ended) -> Finding {
    let (app_name, proxy_name, code) = (&app.name, &proxy.name, end.code);
    let problem = format!(
        "app {app_name} ran before its proxy {proxy_name} accepted connections, and ended with exit code {code}"
    );
    let ran = match (end.started_ms, end.finished_ms) {
        (Some(began), Some(ended)) => {
            let (began, ended) = (clock(began), clock(ended));
            format!("ran from {began} to {ended}, exit code {code}")
        }
        _ => format!("exit code {code}"),
    };
    let began = match first_start(proxy) {
        Some(at) => format!("started at {}", clock(at)),
        None => "has not started".to_owned(),
    };
    let order = match comes_before(case, app, proxy) {
        true => "the app comes first in the spec",
        false => "the app does not wait for it",
    };
    let finding = Finding::error(Id::StartedBeforeProxy, problem)
        .about(app_name)
        .because(app.status_path(), ran)
        .because(proxy.status_path(), format!("{began}; {order}"));
    advise(case, finding)
}

fn advise(case: &Case<'_>, finding: Finding) -> Finding {
    if case.plan.tuning.hold == HoldKind::No {
        // The pod's own annotation overrides its Namespace and the configuration, and which of them it is, is not visible.
        let key = annotation::HOLD;
        return finding.because("opt-out", case.opt_out(key)).fix(
            "Override the setting that disables hold for this pod.",
            Case::template_annotation(key, "true"),
        );
    }
    if let Some(excluded) = case.excluded() {
        return finding.because("configuration", excluded).fix(
            "Remove the namespace from excludedNamespaces in the configuration.",
            "",
        );
    }
    match case.seen.modes.as_ref().map(|modes| modes.hold) {
        Some(Mode::Enforce) => finding.fix(
            "Hold the start of the app too, not only its connections.",
            Case::template_annotation(annotation::HOLD, "start"),
        ),
        _ => {
            let action = "hold the app's connections on this node until the proxy is ready";
            let (remedy, how) = case.enable(action, annotation::HOLD);
            finding.fix(sentence(&remedy), how)
        }
    }
}

/// The first app that failed before a proxy could be ready, with the proxy and the failed run.
fn first_failure<'a>(case: &Case<'a>) -> Option<(&'a Container, &'a Container, &'a Ended)> {
    let held = case.newest(|detail| {
        matches!(
            detail,
            Detail::HoldArmed { .. } | Detail::HoldAdopted { .. } | Detail::StartHeld { .. }
        )
    });
    let mut proxies = case
        .sidecars()
        .filter(|(sidecar, _)| sidecar.stage == Stage::Mesh && !sidecar.held_ports.is_empty())
        .map(|(_, proxy)| proxy)
        .filter(|_| held.is_none());
    proxies.find_map(|proxy| {
        case.apps()
            .filter(|app| !own_hold::waits(proxy) || comes_before(case, app, proxy))
            // The kubelet reports only the last two runs: the first run may be missing.
            .find_map(|app| {
                let end = app.ends().find(|end| is_early(case, app, proxy, end))?;
                Some((proxy, app, end))
            })
    })
}

/// Whether a refused connection may have ended this run.
fn may_be_refused(end: &Ended) -> bool {
    end.code != 0 && !NO_COMMAND.contains(&end.code) && end.reason != OUT_OF_MEMORY
}

fn is_early(case: &Case<'_>, app: &Container, proxy: &Container, end: &Ended) -> bool {
    let (Some(began), Some(ended)) = (end.started_ms, end.finished_ms) else {
        return false;
    };
    if !may_be_refused(end) || ended.saturating_sub(began) > BRIEF_MS {
        return false;
    }
    let Some(proxy_began) = first_start(proxy) else {
        return proxy.status.restarts == 0;
    };
    // The status has whole seconds: within one second the order of the spec decides.
    let first = began < proxy_began || began == proxy_began && comes_before(case, app, proxy);
    let soon = began <= proxy_began + 1000 && ended <= proxy_began + READY_MS / 2;
    first && ended <= proxy_began + READY_MS || soon
}

/// When the first run of a container started; None before it, and once the kubelet no longer reports that run.
fn first_start(container: &Container) -> Option<u64> {
    match (container.status.restarts, container.is_waiting()) {
        (0, _) => container.started_ms(),
        // The current run is the second one.
        (1, false) => container.status.last.as_ref()?.started_ms,
        _ => None,
    }
}

fn comes_before(case: &Case<'_>, app: &Container, proxy: &Container) -> bool {
    let mut all = case.facts.containers.iter();
    all.find(|found| [&app.name, &proxy.name].contains(&&found.name))
        .is_some_and(|first| first.name != proxy.name)
}
