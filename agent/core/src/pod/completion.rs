//! Whether a pod is finished: every app container ended for good.

use crate::{
    base::{id::ContainerId, time::Timestamp},
    decision::WaitReason,
    plan::Plan,
    pod::{
        exit_status::ExitStatus,
        restart_policy::{self, Verdict},
        spec::{Container, Pod, RunState as Reported, Status},
        state::runs::{Restart, Run, RunState, Runs},
    },
};

/// Answers of the kubelet after which a status that does not fit what the
/// kernel shows is not taken for old any more: about 3 s.
const MAX_RESTART_GUESS: u32 = 6;

/// How far a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// An app container runs, has not started, or comes back.
    Unfinished(WaitReason),
    /// The kernel has never shown an app container, although others of its pod have begun: it is started any moment, or was
    /// gone before anybody could look.
    Unseen(WaitReason),
    /// All that is known is ended; the rest only the kubelet can tell.
    AskKubelet(WaitReason),
    /// The kubelet says that this app container runs, and its processes cannot be seen.
    Hidden,
    /// Every app container ended for good, the last of them at `at`; None where no end was seen.
    Finished { at: Option<Timestamp> },
}

/// Judges a pod. The cgroup tree must have been walked: what it does not show is taken for gone.
pub(crate) fn progress(runs: &Runs, spec: &Pod, plan: &Plan, unhelpful_answers: u32) -> Progress {
    let apps = spec
        .containers
        .iter()
        .filter(|container| plan.is_app(&container.name))
        .map(|container| app(runs, spec, container, unhelpful_answers))
        .reduce(both);
    match apps {
        Some(Progress::Finished { at }) => match may_restart_all(runs, spec) {
            Some(why) => Progress::AskKubelet(why),
            None => Progress::Finished { at },
        },
        // A pod without apps is not ours.
        progress => progress.unwrap_or(Progress::Hidden),
    }
}

/// The run of the app that ended last, where every app was seen to run and to end.
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
    let ends: Option<Vec<_>> = spec
        .containers
        .iter()
        .filter(|container| plan.is_app(&container.name))
        .map(|container| match runs.newest(&container.name)? {
            (id, run) if run.executed && !run.not_started => Some((run.ended_at()?, id)),
            _ => None,
        })
        .collect();
    let (at, id) = ends?.into_iter().max()?;
    Some((id, at))
}

/// Looks for ends that start the whole pod again, and for how far that is.
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

/// Whether a whole-pod restart starts this container again that the run ended before.
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
        // The kubelet may have been starting later containers still when that
        // one ended; such runs were killed before it began again.
        Some(again) => place(name) > place(&restart.by) && run.order < again && begun <= again,
    }
}

/// Whether a container ended in a way that may start the whole pod again, which only its code can tell.
fn may_restart_all(runs: &Runs, spec: &Pod) -> Option<WaitReason> {
    restarters(spec).find_map(|container| {
        let own_runs = runs.runs_of(&container.name);
        let unknown = |(id, run): &(&ContainerId, &Run)| {
            !run.lives() && code_of(container, id, run).is_none()
        };
        let Some(newest) = own_runs.first() else {
            // It may have been the one that ended before anybody could tell.
            let reported = container.status.as_ref().map(|status| status.state);
            let open = !matches!(reported, Some(Reported::Terminated(_)));
            let container = (open && runs.has_unnamed_end()).then(|| container.name.clone())?;
            return Some(WaitReason::StatusUnknown { container });
        };
        // The run before may be what the newest came of. Once the status is
        // about the newest it tells of that one as well, or never will.
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

/// Containers whose ends may start the whole pod again.
fn restarters(spec: &Pod) -> impl Iterator<Item = &Container> {
    let containers = spec.containers.iter().chain(&spec.init_restarters);
    containers.filter(|container| container.restart_rules.iter().any(|rule| rule.whole_pod))
}

/// Whether a run ended that was only created, as far as is known, so that the container restarts whatever its policy.
pub(crate) fn may_not_have_begun(container: &Container, id: &ContainerId, run: &Run) -> bool {
    let says_more = |status: &Status| {
        let is_about_it = status.id.as_ref() == Some(id);
        is_about_it && status.state != Reported::Waiting
    };
    // Of one that had gone before anybody saw its program or its end only the kubelet knows, or a later observation.
    let in_doubt = !run.executed && !container.status.as_ref().is_some_and(says_more);
    (run.not_started || in_doubt) && container.reported_code(id).is_none()
}

/// How a run ended, from the kernel or else from the kubelet.
fn code_of(container: &Container, id: &ContainerId, run: &Run) -> Option<i32> {
    let RunState::Exited { status, .. } = run.state else {
        return None;
    };
    let known = status.map(ExitStatus::kubernetes_code);
    known.or_else(|| container.reported_code(id))
}

/// Whether a regular container of the pod ended with another code than 0, so that the pod is a failed one whatever its
/// sidecars do. How one ended that is started again says nothing. None while a code that could tell is not known.
pub(crate) fn has_failed(runs: &Runs, spec: &Pod) -> Option<bool> {
    let codes: Vec<Option<i32>> = spec
        .containers
        .iter()
        .filter_map(|container| {
            let code = match runs.newest(&container.name) {
                Some((_id, run)) if run.lives() => return None,
                Some((id, run)) => code_of(container, id, run),
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

fn app(runs: &Runs, spec: &Pod, container: &Container, unhelpful_answers: u32) -> Progress {
    let name = || container.name.clone();
    let judge = |code, at| {
        let policy = spec.policy_of(container);
        match restart_policy::judge(policy, &container.restart_rules, code) {
            Verdict::EndedForGood => Progress::Finished { at },
            Verdict::ComesBack => Progress::Unfinished(WaitReason::ComesBack {
                container: name(),
                code,
            }),
            Verdict::CodeDecides => {
                Progress::AskKubelet(WaitReason::CodeUnknown { container: name() })
            }
        }
    };
    let restarts = || Progress::Unfinished(WaitReason::WholePodRestarts { container: name() });
    if let Some((id, run)) = runs.newest(&container.name) {
        let restart = runs.restart.as_ref();
        if restart.is_some_and(|restart| is_restarted(restart, spec, &container.name, run)) {
            return restarts();
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
            RunState::Exited { at, .. } => judge(code_of(container, id, run), Some(at)),
        };
    }
    // The kernel has never shown a run of it.
    if runs.restart.is_some() {
        return restarts();
    }
    let unclear = || Progress::AskKubelet(WaitReason::StatusUnknown { container: name() });
    match &container.status {
        Some(Status {
            state: Reported::Terminated(code),
            ..
        }) => judge(Some(*code), None),
        Some(Status {
            state: Reported::Running,
            id: Some(_),
            ..
        }) => match &spec.runtime_class {
            None => judge(None, None),
            // The status may be old, or the runtime may hide the container.
            Some(_) if unhelpful_answers >= MAX_RESTART_GUESS => Progress::Hidden,
            Some(_) => unclear(),
        },
        _ if runs.has_unnamed_end() => unclear(),
        _ => {
            let mut others = spec.containers.iter();
            let begun = others.any(|other| runs.newest(&other.name).is_some());
            let why = WaitReason::NotStarted { container: name() };
            match begun {
                true => Progress::Unseen(why),
                false => Progress::Unfinished(why),
            }
        }
    }
}
