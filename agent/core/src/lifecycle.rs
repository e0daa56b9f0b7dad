//! Whether a pod is finished: every app container ended for good.

use crate::{
    pod::{Container, Pod, RunState as Reported, Status},
    policy::{self, Verdict},
    process::ExitStatus,
    recipe,
    time::Timestamp,
    tracked::{RunState, Tracked},
};

/// How far a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// An app container runs, has not started, or comes back.
    Unfinished,
    /// All that is known is ended; the rest only the kubelet can tell.
    AskKubelet,
    /// Every app container ended for good, the last of them at `at`; None
    /// where no end was seen.
    Finished { at: Option<Timestamp> },
}

/// Judges a pod. The cgroup tree must have been walked: what it does not show
/// is taken for gone.
pub(crate) fn progress(tracked: &Tracked, spec: &Pod) -> Progress {
    let mut apps = spec
        .containers
        .iter()
        .filter(|container| recipe::recognise(spec, container).is_none())
        .peekable();
    if apps.peek().is_none() {
        return Progress::Unfinished;
    }
    apps.map(|container| app(tracked, spec, container))
        .reduce(both)
        .unwrap_or(Progress::Unfinished)
}

fn both(one: Progress, other: Progress) -> Progress {
    use Progress::{AskKubelet, Finished, Unfinished};
    match (one, other) {
        (Unfinished, _) | (_, Unfinished) => Unfinished,
        (AskKubelet, _) | (_, AskKubelet) => AskKubelet,
        (Finished { at: one }, Finished { at: other }) => Finished { at: one.max(other) },
    }
}

fn app(tracked: &Tracked, spec: &Pod, container: &Container) -> Progress {
    let judge = |code, at| {
        let policy = container.restart_policy.unwrap_or(spec.restart_policy);
        match policy::judge(policy, &container.restart_rules, code) {
            Verdict::EndedForGood => Progress::Finished { at },
            Verdict::ComesBack => Progress::Unfinished,
            Verdict::CodeDecides => Progress::AskKubelet,
        }
    };
    if let Some((id, run)) = tracked.newest(&container.name) {
        return match run.state {
            RunState::Starting | RunState::Running => Progress::Unfinished,
            RunState::Exited { at, status } => {
                let code = status.map(ExitStatus::kubernetes_code);
                judge(code.or_else(|| container.reported_code(id)), Some(at))
            }
        };
    }
    // The kernel has never shown a run of it.
    match &container.status {
        Some(Status {
            state: Reported::Terminated(code),
            ..
        }) => judge(Some(*code), None),
        Some(Status {
            state: Reported::Running,
            id: Some(id),
            ..
        }) if !tracked.knows(id) => judge(None, None),
        _ if tracked.has_nameless_end() => Progress::AskKubelet,
        _ => Progress::Unfinished,
    }
}
