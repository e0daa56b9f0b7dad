//! Whether a pod is finished: every app container ended and does not restart.

use std::cell::LazyCell;

use crate::{
    base::{id::ContainerId, time::Timestamp},
    decision::{KubeletRestart, WaitReason},
    plan::Plan,
    pod::{
        exit_status::ExitStatus,
        restart_policy::{self, RestartPolicy, Verdict},
        spec::{Container, Pod, RunState as Reported, Status},
        state::runs::{Restart, Run, RunState, Runs},
    },
};

/// After so many replies of the kubelet, about 3 s, a status that contradicts the kernel no longer counts as
/// outdated.
const MAX_RESTART_GUESS: u32 = 6;

/// The progress of a pod towards its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// An app container runs, has not started, or restarts.
    Unfinished(WaitReason),
    /// No run of an app container was observed, although other containers of its pod have started: it starts soon, or
    /// its run ended before usher could observe it.
    Unseen(WaitReason),
    /// No app is known to run, but a fact is missing that only the kubelet can report.
    AskKubelet(WaitReason),
    /// The kubelet reports that this app container runs, but its processes are not visible.
    Hidden,
    /// Every app container ended and does not restart, the last one at `at`; None where usher observed no end.
    Finished { at: Option<Timestamp> },
}

/// Evaluates a pod. The cgroup tree must have been walked: a container without a cgroup counts as gone.
pub(crate) fn progress(runs: &Runs, spec: &Pod, plan: &Plan, unhelpful_answers: u32) -> Progress {
    let has_begun = LazyCell::new(|| {
        let mut containers = spec.containers.iter();
        containers.any(|container| runs.newest(&container.name).is_some())
    });
    let apps = plan
        .apps(spec)
        .map(|container| app(runs, spec, container, unhelpful_answers, || *has_begun))
        .reduce(both);
    match apps {
        Some(Progress::Finished { at }) => match may_restart_all(runs, spec) {
            Some(why) => Progress::AskKubelet(why),
            None => Progress::Finished { at },
        },
        // usher does not act on a pod without apps.
        progress => progress.unwrap_or(Progress::Hidden),
    }
}

/// The run of the app that ended last, where usher observed every app run and end.
pub(crate) fn last_app_run<'runs>(
    runs: &'runs Runs,
    spec: &Pod,
    plan: &Plan,
) -> Option<(&'runs ContainerId, Timestamp)> {
    let nameless = runs
        .iter()
        .filter(|(id, run)| run.lives() && runs.name_of(id, run).is_none());
    // One of them is the sandbox; another one may be an app.
    if nameless.count() > 1 {
        return None;
    }
    let ends: Option<Vec<_>> = plan
        .apps(spec)
        .map(|container| match runs.newest(&container.name)? {
            (id, run) if run.executed && !run.not_started => Some((run.ended_at()?, id)),
            _ => None,
        })
        .collect();
    let (at, id) = ends?.into_iter().max()?;
    Some((id, at))
}

/// Records the newest exit that restarts the whole pod, and the first run after it.
pub(crate) fn note_restart(runs: &mut Runs, spec: &Pod) {
    let ends = restarters(spec).flat_map(|container| {
        runs.runs_of(&container.name)
            .into_iter()
            .filter_map(|(id, run)| {
                let RunState::Exited { begun, .. } = run.state else {
                    return None;
                };
                let code = code_of(container, id, run)?;
                let rule = restart_policy::rule_for(&container.restart_rules, code)?;
                rule.whole_pod.then(|| (begun, container.name.clone()))
            })
    });
    let newest = ends.max_by_key(|(begun, _name)| *begun);
    let known = runs.restart.as_ref().map_or(0, |known| known.since);
    if let Some((since, by)) = newest.filter(|(since, _by)| *since > known) {
        let again = None;
        runs.restart = Some(Restart { by, since, again });
    }
    if let Some(restart @ Restart { again: None, .. }) = runs.restart.clone() {
        let again = runs
            .runs_of(&restart.by)
            .into_iter()
            .map(|(_id, run)| run.order)
            .filter(|order| *order >= restart.since)
            .min();
        runs.restart = Some(Restart { again, ..restart });
    }
}

/// Whether a whole-pod restart restarts this container, whose run has ended.
fn is_restarted(restart: &Restart, spec: &Pod, name: &str, run: &Run) -> bool {
    let RunState::Exited { begun, .. } = run.state else {
        return false;
    };
    if run.order < restart.since {
        return true;
    }
    let place = |name: &str| spec.containers.iter().position(|found| found.name == name);
    match restart.again {
        None => true,
        // The kubelet may still have been starting later containers when that container ended; it killed such runs
        // before that container started again.
        Some(again) => place(name) > place(&restart.by) && run.order < again && begun <= again,
    }
}

/// Whether a container ended with an unknown exit code that may restart the whole pod.
fn may_restart_all(runs: &Runs, spec: &Pod) -> Option<WaitReason> {
    restarters(spec).find_map(|container| {
        let own_runs = runs.runs_of(&container.name);
        let unknown = |(id, run): &(&ContainerId, &Run)| {
            !run.lives() && code_of(container, id, run).is_none()
        };
        let Some(newest) = own_runs.first() else {
            // The unnamed run that ended may have been this container's.
            let reported = container.status.as_ref().map(|status| status.state);
            let open = !matches!(reported, Some(Reported::Terminated(_)));
            let container = (open && runs.has_unnamed_end()).then(|| container.name.clone())?;
            return Some(WaitReason::StatusUnknown { container });
        };
        // The end of the previous run may have caused the newest run. Once the status reports the newest run, it also
        // reports the previous one, or never will.
        let listed = container
            .status
            .as_ref()
            .and_then(|status| status.id.as_ref());
        let before = runs.has_unnamed_end() || own_runs.get(1).is_some_and(unknown);
        let unclear = unknown(newest) || before && listed != Some(newest.0);
        let container = unclear.then(|| container.name.clone())?;
        Some(WaitReason::CodeUnknown { container })
    })
}

/// Containers whose exits may restart the whole pod.
fn restarters(spec: &Pod) -> impl Iterator<Item = &Container> {
    let containers = spec.containers.iter().chain(&spec.init_restarters);
    containers.filter(|container| container.restart_rules.iter().any(|rule| rule.whole_pod))
}

/// Whether a run may have ended before its program started, so that the container restarts under any policy.
pub(crate) fn may_not_have_begun(container: &Container, id: &ContainerId, run: &Run) -> bool {
    let says_more = |status: &Status| {
        let is_about_it = status.id.as_ref() == Some(id);
        is_about_it && status.state != Reported::Waiting
    };
    // If usher observed neither the program nor its exit status, only the kubelet or a later observation decides.
    let in_doubt = !run.executed && !container.status.as_ref().is_some_and(says_more);
    (run.not_started || in_doubt) && container.reported_code(id).is_none()
}

/// What the kubelet may have ended a run for, to restart the container whatever its exit code: a failed probe or a new
/// sandbox, unless the policy is Never, or a resize
/// ([computePodActions](https://github.com/kubernetes/kubernetes/blob/v1.33.0/pkg/kubelet/kuberuntime/kuberuntime_manager.go)).
/// It ends and restarts it in one step and reports no status between them. `begun`: the number of runs that had begun by
/// the end.
fn restart_by_kubelet(
    runs: &Runs,
    spec: &Pod,
    container: &Container,
    (id, run): (&ContainerId, &Run),
    begun: u64,
) -> Option<KubeletRestart> {
    let policies = [spec.restart_policy, spec.policy_of(container)];
    let is_never = policies
        .iter()
        .all(|policy| *policy == RestartPolicy::Never);
    let is_over = container.status.as_ref().is_some_and(|status| {
        status.id.as_ref() == Some(id) && matches!(status.state, Reported::Terminated(_))
    });
    if !is_over && !is_never && !container.probes.is_empty() {
        return Some(KubeletRestart::FailedProbe);
    }
    if !is_over && container.restarts_on_resize {
        return Some(KubeletRestart::Resize);
    }
    // The sandbox has no name, and begins before its containers.
    let has_sandbox = runs.unnamed().any(|other| other.order < run.order);
    if is_never || has_sandbox {
        return None;
    }
    // The kubelet decides about all containers before it ends those of the old sandbox, and starts them one by one. The
    // next run of this one may be among those that have just begun, and the status an old one.
    let mut later = runs
        .unnamed()
        .filter(|other| other.order >= begun && !other.hidden);
    let may_begin = later.any(|new| !is_over || new.state == RunState::Starting);
    may_begin.then_some(KubeletRestart::NewSandbox)
}

/// The exit code of a run after this one that the kernel did not show: without a watch, the cgroups of a pod are listed
/// every two seconds.
fn end_of_unseen_run(
    runs: &Runs,
    container: &Container,
    (id, run): (&ContainerId, &Run),
) -> Option<i32> {
    let status = container.status.as_ref().filter(|_| !run.lives())?;
    let is_next = status.last.as_ref().is_some_and(|last| last.id == *id);
    let is_unseen = status.id.as_ref().is_some_and(|next| !runs.contains(next));
    match status.state {
        Reported::Terminated(code) if is_next && is_unseen => Some(code),
        _ => None,
    }
}

/// The exit code of a run, from the kernel or else from the kubelet.
fn code_of(container: &Container, id: &ContainerId, run: &Run) -> Option<i32> {
    let RunState::Exited { status, .. } = run.state else {
        return None;
    };
    let known = status.map(ExitStatus::kubernetes_code);
    known.or_else(|| container.reported_code(id))
}

/// Whether a regular container of the pod ended with another code than 0, so that the pod fails whatever its sidecars
/// do. The exit code of a container that will be restarted does not count. None while a deciding exit code is
/// unknown.
pub(crate) fn has_failed(runs: &Runs, spec: &Pod) -> Option<bool> {
    let codes: Vec<Option<i32>> = spec
        .containers
        .iter()
        .filter_map(|container| {
            let code = match runs.newest(&container.name) {
                Some((_id, run)) if run.lives() => return None,
                Some((id, run)) => end_of_unseen_run(runs, container, (id, run))
                    .or_else(|| code_of(container, id, run)),
                None => match container.status.as_ref()?.state {
                    Reported::Terminated(code) => Some(code),
                    Reported::Running => None,
                    Reported::Waiting => return None,
                },
            };
            let policy = spec.policy_of(container);
            let verdict = restart_policy::judge(policy, &container.restart_rules, code);
            (verdict != Verdict::ComesBack).then_some(code)
        })
        .collect();
    if codes.iter().flatten().any(|code| *code != 0) {
        return Some(true);
    }
    codes.iter().all(Option::is_some).then_some(false)
}

fn both(one: Progress, other: Progress) -> Progress {
    use Progress::{AskKubelet, Finished, Hidden, Unfinished, Unseen};
    match (one, other) {
        (Finished { at: one }, Finished { at: other }) => Finished { at: one.max(other) },
        (unfinished @ (Unfinished(_) | Unseen(_)), _)
        | (_, unfinished @ (Unfinished(_) | Unseen(_))) => unfinished,
        (ask @ AskKubelet(_), _) | (_, ask @ AskKubelet(_)) => ask,
        (Hidden, _) | (_, Hidden) => Hidden,
    }
}

/// `has_begun` returns whether a run of any container was observed.
fn app(
    runs: &Runs,
    spec: &Pod,
    container: &Container,
    unhelpful_answers: u32,
    has_begun: impl FnOnce() -> bool,
) -> Progress {
    let name = || container.name.clone();
    let verdict =
        |code| restart_policy::judge(spec.policy_of(container), &container.restart_rules, code);
    let unclear = || Progress::AskKubelet(WaitReason::StatusUnknown { container: name() });
    // `order` is that of the run that ended, if it was observed.
    let judge = |code, at, order: Option<u64>| match verdict(code) {
        Verdict::EndedForGood => Progress::Finished { at },
        // The next run may have ended before its name was known, and for good.
        Verdict::ComesBack
            if verdict(None) != Verdict::ComesBack && runs.has_unnamed_end_since(order) =>
        {
            unclear()
        }
        Verdict::ComesBack => Progress::Unfinished(WaitReason::ComesBack {
            container: name(),
            code,
        }),
        Verdict::CodeDecides => Progress::AskKubelet(WaitReason::CodeUnknown { container: name() }),
    };
    let restarts = || Progress::Unfinished(WaitReason::WholePodRestarts { container: name() });
    if let Some((id, run)) = runs.newest(&container.name) {
        let restart = runs.restart.as_ref();
        if restart.is_some_and(|restart| is_restarted(restart, spec, &container.name, run)) {
            return restarts();
        }
        if let Some(code) = end_of_unseen_run(runs, container, (id, run)) {
            return judge(Some(code), None, Some(run.order));
        }
        return match run.state {
            RunState::Starting if run.hidden => Progress::Hidden,
            RunState::Starting => {
                Progress::Unfinished(WaitReason::NotStarted { container: name() })
            }
            RunState::Running => Progress::Unfinished(WaitReason::Runs { container: name() }),
            RunState::Exited { .. } if may_not_have_begun(container, id, run) => {
                Progress::AskKubelet(WaitReason::StatusUnknown { container: name() })
            }
            RunState::Exited { at, begun, .. } => {
                let progress = judge(code_of(container, id, run), Some(at), Some(run.order));
                match restart_by_kubelet(runs, spec, container, (id, run), begun) {
                    Some(cause) if matches!(progress, Progress::Finished { .. }) => {
                        let container = name();
                        Progress::AskKubelet(WaitReason::KubeletMayRestart { container, cause })
                    }
                    _ => progress,
                }
            }
        };
    }
    // No run of the container was observed.
    if runs.restart.is_some() {
        return restarts();
    }
    match &container.status {
        Some(Status {
            state: Reported::Terminated(code),
            ..
        }) => judge(Some(*code), None, None),
        Some(Status {
            state: Reported::Running,
            id: Some(_),
            ..
        }) => match &spec.runtime_class {
            None => judge(None, None, None),
            // The status may be old, or the runtime may hide the container.
            Some(_) if unhelpful_answers >= MAX_RESTART_GUESS => Progress::Hidden,
            Some(_) => unclear(),
        },
        _ if runs.has_unnamed_end() => unclear(),
        _ => {
            let why = WaitReason::NotStarted { container: name() };
            match has_begun() {
                true => Progress::Unseen(why),
                false => Progress::Unfinished(why),
            }
        }
    }
}
