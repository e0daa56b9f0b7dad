//! What is done about a finished pod: nothing, in observe mode a report of what
//! would be done, in enforce mode the next step with each of its sidecars.

use crate::{
    action::Action,
    annotation,
    decision::{Decision, Kind, LeftAlone},
    event::ContainerKey,
    mode::Mode,
    pod::{self, Pod},
    quit::{ATTEMPT, Next},
    recipe::{self, Sidecar},
    step::Step,
    time::Timestamp,
    tracked::{RunState, Tracked},
};

/// The recognised sidecars of a pod, by name.
pub(crate) fn sidecars(spec: &Pod) -> Vec<(String, Sidecar)> {
    spec.containers
        .iter()
        .filter_map(|container| {
            let sidecar = recipe::recognise(spec, container)?;
            Some((container.name.clone(), sidecar))
        })
        .collect()
}

/// Has everything made ready for the sidecars that run, while the apps still do.
pub(crate) fn prepare(
    tracked: &mut Tracked,
    sidecars: &[(String, Sidecar)],
    actions: &mut Vec<Action>,
) {
    for (name, sidecar) in sidecars {
        let Some((id, run)) = tracked.newest(name) else {
            continue;
        };
        let asks = matches!(sidecar.ladder.first(), Some(Step::Post { .. }));
        if run.state != RunState::Running || !asks {
            continue;
        }
        let id = id.clone();
        if tracked.quit.said.prepared.insert(id.clone()) {
            let pod = tracked.uid.clone();
            actions.push(Action::Prepare(ContainerKey { pod, id }));
        }
    }
}

/// Deals with a finished pod.
pub(crate) fn finished(
    tracked: &mut Tracked,
    mode: Mode,
    sidecars: &[(String, Sidecar)],
    at: Option<Timestamp>,
    now: Timestamp,
    actions: &mut Vec<Action>,
) {
    let Some(spec) = &tracked.spec else { return };
    if mode == Mode::Off {
        tracked.quit.reset();
        return;
    }
    if !tracked.quit.said.finished && !anybody_left(tracked, spec, sidecars) {
        return;
    }
    if spec.deleting {
        leave_alone(tracked, LeftAlone::Deleting, at, now, actions);
        return;
    }
    match spec.annotations.get(annotation::QUIT).map(String::as_str) {
        Some("false") => {
            leave_alone(tracked, LeftAlone::OptedOut, at, now, actions);
            return;
        }
        Some("true") | None => {}
        Some(value) => {
            let kind = Kind::BadAnnotation {
                key: annotation::QUIT,
                value: value.chars().take(64).collect(),
            };
            if !tracked.quit.said.finished {
                actions.push(report(tracked, None, kind, at, now));
            }
        }
    }
    let living: Vec<&(String, Sidecar)> = sidecars
        .iter()
        .filter(|(name, _)| tracked.newest(name).is_some_and(|(_, run)| run.lives()))
        .collect();
    if !tracked.quit.said.finished {
        tracked.quit.said.finished = true;
        let sidecars = living.iter().map(|(name, _)| name.clone()).collect();
        let kind = Kind::PodFinished { sidecars };
        actions.push(report(tracked, None, kind, at, now));
    }
    report_ended(tracked, sidecars, at, actions);
    match mode {
        Mode::Off => {}
        Mode::Observe => {
            tracked.quit.stop();
            would_quit(tracked, &living, at, now, actions);
        }
        Mode::Enforce => show_out(tracked, &living, at, now, actions),
    }
}

/// Whether a sidecar lives, or may still be started.
fn anybody_left(tracked: &Tracked, spec: &Pod, sidecars: &[(String, Sidecar)]) -> bool {
    sidecars
        .iter()
        .any(|(name, _sidecar)| match tracked.newest(name) {
            Some((_id, run)) => run.lives(),
            None => spec
                .container(name)
                .and_then(|container| container.status.as_ref())
                .is_none_or(|status| !matches!(status.state, pod::RunState::Terminated(_))),
        })
}

fn leave_alone(
    tracked: &mut Tracked,
    reason: LeftAlone,
    at: Option<Timestamp>,
    now: Timestamp,
    actions: &mut Vec<Action>,
) {
    tracked.quit.stop();
    if !std::mem::replace(&mut tracked.quit.said.left_alone, true) {
        actions.push(report(tracked, None, Kind::LeftAlone { reason }, at, now));
    }
}

/// Reports sidecars that ended since the pod was finished.
fn report_ended(
    tracked: &mut Tracked,
    sidecars: &[(String, Sidecar)],
    at: Option<Timestamp>,
    actions: &mut Vec<Action>,
) {
    for (name, _sidecar) in sidecars {
        let Some((id, run)) = tracked.newest(name) else {
            continue;
        };
        let RunState::Exited { at: ended_at, .. } = run.state else {
            continue;
        };
        let id = id.clone();
        // Often the end overtakes the answer that it was asked for with; which
        // of the two came about is known when both are there.
        if tracked.quit.said.ended.contains(&id) || tracked.quit.in_flight(name, &id) {
            continue;
        }
        let asked = tracked.quit.asked(name, &id);
        tracked.quit.ended(name, &id);
        tracked.quit.said.ended.insert(id);
        let kind = Kind::SidecarEnded { asked };
        actions.push(report(tracked, Some(name), kind, at, ended_at));
    }
}

fn would_quit(
    tracked: &mut Tracked,
    living: &[&(String, Sidecar)],
    at: Option<Timestamp>,
    now: Timestamp,
    actions: &mut Vec<Action>,
) {
    for (name, sidecar) in living {
        let Some((id, _run)) = tracked.newest(name) else {
            continue;
        };
        let id = id.clone();
        let Some(step) = sidecar.ladder.first().copied() else {
            continue;
        };
        if tracked.quit.said.would_quit.insert(id) {
            let recipe = sidecar.recipe;
            let kind = Kind::WouldQuit { recipe, step };
            actions.push(report(tracked, Some(name), kind, at, now));
        }
    }
}

/// Takes the next steps with the sidecars whose turn it is.
fn show_out(
    tracked: &mut Tracked,
    living: &[&(String, Sidecar)],
    at: Option<Timestamp>,
    now: Timestamp,
    actions: &mut Vec<Action>,
) {
    let due = living
        .iter()
        .filter_map(|(name, sidecar)| {
            let (id, run) = tracked.newest(name)?;
            let started = run.state == RunState::Running;
            (started && !tracked.quit.gave_up(name, id)).then(|| (name, id.clone(), sidecar))
        })
        .collect::<Vec<_>>();
    let Some(turn) = due.iter().map(|(_, _, sidecar)| sidecar.order).min() else {
        return;
    };
    for (name, id, sidecar) in due {
        if sidecar.order != turn {
            continue;
        }
        let recipe = sidecar.recipe;
        loop {
            let kind = match tracked.quit.next(now, name, &id, &sidecar.ladder) {
                Next::Nothing => break,
                Next::Attempt(step) => {
                    actions.push(Action::Attempt {
                        key: ContainerKey {
                            pod: tracked.uid.clone(),
                            id: id.clone(),
                        },
                        step,
                        timeout: ATTEMPT,
                    });
                    continue;
                }
                Next::Failed {
                    step,
                    outcome,
                    next,
                } => Kind::StepFailed {
                    recipe,
                    step,
                    outcome,
                    next,
                },
                Next::GaveUp(reason) => Kind::GaveUp { reason },
            };
            actions.push(report(tracked, Some(name), kind, at, now));
        }
    }
}

pub(crate) fn report(
    tracked: &Tracked,
    container: Option<&str>,
    kind: Kind,
    at: Option<Timestamp>,
    now: Timestamp,
) -> Action {
    Action::Report(Decision {
        pod: tracked.uid.clone(),
        pod_name: tracked
            .spec
            .as_ref()
            .map_or_else(|| tracked.uid.to_string(), Pod::display_name),
        container: container.map(str::to_owned),
        kind,
        since_exit: at.map(|at| now.since(at)),
    })
}
