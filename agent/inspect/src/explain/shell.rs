//! A sidecar below a shell that keeps its signals.
//!
//! The kernel gives no signal to the first process of a pid namespace that has no handler for it. A shell that stays, as
//! dash does with `sh -c "a && b"`, has none for `SIGTERM` and passes none on. So the kubelet, and whoever else asks the
//! sidecar to end, waits for nothing: after the grace period it is killed.

use usher_core::{plan::Sidecar, recipe::step::Step};

use super::{
    Case, Finding, Id, Severity,
    facts::Container,
    finding::short,
    seen::{OnTerm, Process},
};

const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "busybox", "zsh", "ksh"];

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    if case.facts.shares_processes {
        return Vec::new();
    }
    let natives = case
        .facts
        .init
        .iter()
        .filter(|container| container.is_native);
    let regular = case
        .sidecars()
        .map(|(sidecar, container)| (Some(sidecar), container));
    let all = regular.chain(natives.map(|native| (None, native)));
    all.filter_map(|(sidecar, container)| below_a_shell(case, sidecar, container))
        .collect()
}

fn below_a_shell(
    case: &Case<'_>,
    sidecar: Option<&Sidecar>,
    container: &Container,
) -> Option<Finding> {
    let mut processes = case.processes(&container.name);
    let shell = processes.find(|process| process.is_first() && is_deaf_shell(process))?;
    let mut others = case
        .processes(&container.name)
        .filter(|process| process.pid != shell.pid);
    let below = others.next();
    let name = &container.name;
    let problem = format!(
        "a shell is the first process of sidecar {name} and passes no signal on: SIGTERM does not reach the sidecar, which is \
         killed after the pod's grace period"
    );
    let on_term = match shell.on_term {
        OnTerm::Ignores => "SigIgn has SIGTERM",
        OnTerm::Handles | OnTerm::Default => "SigCgt has no SIGTERM",
    };
    let mut finding = Finding::new(Id::ShellIsPid1, severity(case, sidecar), problem)
        .about(name)
        .by(
            format!("process {} (pid 1 of its namespace)", shell.pid),
            format!("{}; {on_term}", short(&shell.words.join(" "))),
        );
    if let Some(below) = below {
        let source = format!("process {} (pid {} there)", below.pid, below.own_pid);
        finding = finding.by(source, short(&below.words.join(" ")));
    }
    let program = below.map_or("SIDECAR", |below| &below.name);
    let how = format!("command: [\"/bin/sh\", \"-ec\", \"... && exec {program} ...\"]");
    Some(finding.mend("Have the shell execute the sidecar in its own place.", how))
}

fn is_deaf_shell(process: &Process) -> bool {
    let first = process.words.first().map_or("", String::as_str);
    let program = first.rsplit('/').next().unwrap_or_default();
    let is_shell = SHELLS.contains(&process.name.as_str())
        || SHELLS.contains(&program.trim_start_matches('-'));
    is_shell && process.on_term != OnTerm::Handles
}

/// It is grave where nothing but a signal to the first process is known to end the sidecar.
fn severity(case: &Case<'_>, sidecar: Option<&Sidecar>) -> Severity {
    let deaf = |sidecar: &Sidecar| {
        let mut steps = sidecar.ladder.iter().map(|rung| &rung.step);
        steps.all(|step| matches!(step, Step::Signal { process: None, .. }))
    };
    match sidecar {
        Some(sidecar) if deaf(sidecar) && case.ends().is_some() => Severity::Error,
        _ => Severity::Warning,
    }
}
