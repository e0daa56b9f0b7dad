//! A sidecar below a shell that does not forward signals.
//!
//! The kernel delivers no signal to the first process of a pid namespace that has no handler for it. A shell that stays, as
//! dash does with `sh -c "a && b"`, has no handler for `SIGTERM` and forwards no signal. So nothing happens when the
//! kubelet terminates the sidecar, until it kills the sidecar after the grace period.

use usher_core::{plan::Sidecar, recipe::step::Step};

use super::{Finding, Id, Severity, short};
use crate::explain::{
    Case,
    facts::Container,
    seen::{OnTerm, Process},
};

const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "busybox", "zsh", "ksh"];

pub(in crate::explain) fn find(case: &Case<'_>) -> Vec<Finding> {
    // With a shared pid namespace, PID 1 is the sandbox's process.
    if case.facts.shares_processes {
        return Vec::new();
    }
    case.sidecars()
        .map(|(sidecar, container)| (Some(sidecar), container))
        .chain(case.natives().map(|native| (None, native)))
        .filter_map(|(sidecar, container)| below_a_shell(case, sidecar, container))
        .collect()
}

fn below_a_shell(
    case: &Case<'_>,
    sidecar: Option<&Sidecar>,
    container: &Container,
) -> Option<Finding> {
    let name = &container.name;
    let shell = case
        .processes(name)
        .find(|process| process.is_first() && is_deaf_shell(process))?;
    let mut others = case.processes(name);
    let below = others.find(|process| process.pid != shell.pid);
    let problem = format!(
        "a shell is the first process of sidecar {name} and forwards no signal: SIGTERM does not reach the sidecar, and the \
         kubelet kills it after the grace period"
    );
    let on_term = match shell.on_term {
        OnTerm::Ignores => "SigIgn has SIGTERM",
        OnTerm::Handles | OnTerm::Default => "SigCgt has no SIGTERM",
    };
    let finding = Finding::new(Id::ShellIsPid1, severity(case, sidecar), problem)
        .about(name)
        .because(
            format!("process {} (pid 1 of its namespace)", shell.pid),
            format!("{}; {on_term}", short(&shell.words.join(" "))),
        )
        .because_any(below.map(|below| {
            let (pid, own_pid) = (below.pid, below.own_pid);
            let source = format!("process {pid} (pid {own_pid} of its namespace)");
            (source, short(&below.words.join(" ")))
        }));
    let program = below.map_or("SIDECAR", |below| &below.name);
    Some(finding.fix(
        "Make the shell exec the sidecar.",
        format!("command: [\"/bin/sh\", \"-ec\", \"... && exec {program} ...\"]"),
    ))
}

fn is_deaf_shell(process: &Process) -> bool {
    let first = process.words.first().map_or("", String::as_str);
    let program = first.rsplit('/').next().unwrap_or_default();
    let is_shell = SHELLS.contains(&process.name.as_str())
        || SHELLS.contains(&program.trim_start_matches('-'));
    is_shell && process.on_term != OnTerm::Handles
}

/// An error if the only known way to end the sidecar of a finished pod is a signal to PID 1.
fn severity(case: &Case<'_>, sidecar: Option<&Sidecar>) -> Severity {
    let only_signals = |sidecar: &Sidecar| {
        let mut steps = sidecar.ladder.iter().map(|ladder_step| &ladder_step.step);
        steps.all(|step| matches!(step, Step::Signal { process: None, .. }))
    };
    match sidecar {
        Some(sidecar) if only_signals(sidecar) && case.ends().is_some() => Severity::Error,
        _ => Severity::Warning,
    }
}
