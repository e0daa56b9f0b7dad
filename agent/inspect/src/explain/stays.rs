//! A pod whose apps have ended and whose sidecar runs on: what keeps a Job from completing.

use usher_core::{
    recipe::Purpose,
    settings::{annotation, mode::Mode},
};

use super::{
    Case, Finding, Id, Severity,
    early_start::{ago, status_of, told},
    facts::Container,
};

/// What a sidecar may take beside what is known of it, before it is said to stay.
const GRACE_MS: u64 = 5_000;

/// Whether a sidecar runs on longer than its end takes.
pub(super) fn stays(case: &Case<'_>, container: &Container) -> bool {
    let Some(finished) = case
        .finished_ms()
        .filter(|_| container.runs() && !case.is_over())
    else {
        return false;
    };
    let sidecars = case.plan.sidecars.iter();
    let mut ours = sidecars.filter(|sidecar| sidecar.name == container.name);
    let asked = case.newest(&["quit-accepted", "drain-accepted"]);
    let takes = ours.next().map_or(0, |sidecar| {
        let rungs = sidecar.ladder.iter();
        let drain = rungs.clone().filter(|rung| rung.purpose == Purpose::Drain);
        let quit = rungs.filter(|rung| rung.purpose == Purpose::Quit);
        let quit = quit.map(|rung| rung.takes).max().unwrap_or_default();
        let all = quit + drain.map(|rung| rung.takes).sum();
        u64::try_from(all.as_millis()).unwrap_or(u64::MAX)
    });
    // Only what was asked needs its time.
    let takes = if asked.is_some() { takes } else { 0 };
    let delay = u64::try_from(case.plan.tuning.quit_delay.as_millis()).unwrap_or(u64::MAX);
    let patience = finished
        .saturating_add(delay)
        .saturating_add(takes)
        .saturating_add(GRACE_MS);
    let gave_up = case.newest(&["gave-up"]).is_some();
    gave_up || case.seen.now_ms > patience
}

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let Some(finished) = case.finished_ms() else {
        return Vec::new();
    };
    let stays: Vec<&Container> = case
        .living()
        .into_iter()
        .map(|(_sidecar, container)| container)
        .filter(|container| stays(case, container))
        .collect();
    let [first, ..] = stays[..] else {
        return Vec::new();
    };
    let names: Vec<&str> = stays.iter().map(|container| &container.name[..]).collect();
    let problem = format!(
        "every app has ended, {}, and {} runs on: the pod does not finish",
        ago(case, finished),
        names.join(", ")
    );
    let mut finding = Finding::new(Id::SidecarStays, Severity::Error, problem).about(&first.name);
    for app in case.apps() {
        if let Some(end) = case.ended_for_good(app) {
            let at = end
                .finished_ms
                .map_or(String::new(), |at| format!(", {}", ago(case, at)));
            finding = finding.by(status_of(app), format!("exit code {}{at}", end.code));
        }
    }
    vec![advise(case, finding, first)]
}

fn advise(case: &Case<'_>, finding: Finding, sidecar: &Container) -> Finding {
    let namespace = &case.facts.namespace;
    if let Some(place) = case.opted_out_of_quit() {
        return finding.by("opt-out", place).mend(
            "Have usher show the pod's sidecars out again.",
            Case::template_annotation(annotation::QUIT, "true"),
        );
    }
    if case.is_excluded {
        return finding.by("configuration", format!("excludedNamespaces has {namespace}")).mend(
            "Take the namespace out of the configuration's excludedNamespaces, or end this pod.",
            format!("kubectl -n {namespace} delete pod {}", case.facts.name),
        );
    }
    if let Some(entry) = case.newest(&["gave-up"]) {
        return finding.by(told(entry), entry.reason.clone()).mend(
            "Do what the decision says; to be rid of this pod, delete it.",
            format!("kubectl -n {namespace} delete pod {}", case.facts.name),
        );
    }
    let last = case.newest(&[
        "would-quit",
        "skipped",
        "not-applicable",
        "waiting",
        "step-failed",
        "quit-accepted",
    ]);
    let finding = match last {
        Some(entry) => finding.by(told(entry), entry.reason.clone()),
        None => finding,
    };
    match case.seen.modes.map(|modes| modes.quit) {
        Some(Mode::Enforce) if !case.seen.agent => finding.mend(
            "usher's agent does not answer on this node: see whether it runs.",
            "kubectl -n usher get pods -o wide",
        ),
        Some(Mode::Enforce) => finding.mend(
            format!("See why {} does not end: its log.", sidecar.name),
            format!(
                "kubectl -n {namespace} logs {} -c {}",
                case.facts.name, sidecar.name
            ),
        ),
        mode => {
            let says = mode.map_or("unknown".to_owned(), |mode| mode.to_string());
            finding
                .by(
                    format!("mode of node {}", case.node()),
                    format!("quit: {says}"),
                )
                .mend(
                    "Have usher show the sidecar out on this node.",
                    case.enforce(annotation::QUIT),
                )
        }
    }
}
